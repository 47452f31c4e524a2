// Options for jobs whose budget is used up. Run it with: npx node examples/closed-budgets.ts
import { input, limit, RateLimitRejected, Sluice, task } from '../src/exports/index.ts'

const run = ({ n }: { n: number }): number => n
const told = (name: string) => (error: Error, job: { readonly input: { readonly n: number } }) => {
  if (error instanceof RateLimitRejected)
    console.log(`${name} ${job.input.n} rejected by ${error.limit}, could start ${error.expectedStart?.toISOString()}`)
}

// A late report is worse than none: 2 per second, and a job waits for at most a second.
const report = task('report', input<{ n: number }>(), {
  limits: [limit('reports', { rate: 2, per: '1s', burst: 1, maxWait: '1s' })],
  onError: told('report'),
  run,
})
// A tick that cannot start now is out of date.
const tick = task('tick', input<{ n: number }>(), {
  limits: [limit('ticker', { every: '10s', onLimit: 'drop' })],
  onError: told('tick'),
  run,
})
// Put off to its own expected start, and shown as scheduled until then.
const digest = task('digest', input<{ n: number }>(), {
  limits: [limit('digest', { rate: 2, per: '1s', burst: 1, onLimit: 'reschedule' })],
  run,
})

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [report, tick, digest] })
await sluice.start()
const numbers = [1, 2, 3, 4].map((n) => ({ n }))
const reports = await report.enqueueMany(numbers)
await tick.enqueueMany(numbers.slice(0, 2))
const digests = await digest.enqueueMany(numbers)
await digests[0]?.result()

for (const job of digests) {
  const { state } = (await sluice.jobs.get(job.id)) ?? {}
  const { expectedStart } = await sluice.jobs.explain(job.id)
  console.log(`digest ${job.id.slice(-4)}: ${state}, ${expectedStart?.toISOString() ?? 'started'}`)
}
await Promise.allSettled([...reports, ...digests].map((job) => job.result()))
await sluice.stop()
