// The rules of docs/start/first-limits.md, side by side on a manual clock. Run it with: npx node examples/first-limits.ts
import { input, limit, type Policy, Sluice, task } from '../src/exports/index.ts'
import { createManualClock, drain } from '../src/exports/testing.ts'

const RULES: Record<string, Policy> = {
  bucket: { rate: 4, per: '10s' },
  sliding: { window: 'sliding', max: 4, per: '10s', guard: 0 },
  fixed: { window: 'fixed', max: 4, per: '10s' },
  spacing: { every: '2500ms' },
  slots: { concurrency: 2 },
}

for (const [name, policy] of Object.entries(RULES)) {
  const clock = createManualClock()
  await clock.advance('7s') // so that a fixed window has 3 s left
  const begunAt = clock.now()
  const starts: number[] = []
  const call = task('call', input<number>(), {
    limits: [limit(name, policy)],
    run: () => {
      starts.push((clock.now() - begunAt) / 1000)
      return new Promise<void>((resolve) => clock.setTimer(() => resolve(), 1000))
    },
  })
  const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [call], clock })
  await sluice.start()
  await call.enqueueMany([1, 2, 3, 4, 5, 6, 7, 8])
  await drain(sluice, clock)
  console.log(`${name.padEnd(8)} ${starts.map((each) => String(each).padStart(5)).join('')}`)
  await sluice.stop()
}
