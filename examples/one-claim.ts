// The claim of docs/internals/claim.md, on a manual clock. Run it with: npx node examples/one-claim.ts
import { input, limit, Sluice, task } from '../src/exports/index.ts'
import { createManualClock } from '../src/exports/testing.ts'

const clock = createManualClock()
const begunAt = clock.now()
const secondsTo = (date: Date | null | undefined): string => (date ? `${(date.getTime() - begunAt) / 1000} s` : '–')
const say = (words: string): void => console.log(`${secondsTo(new Date(clock.now())).padStart(5)}  ${words}`)

const crm = limit('crm', { window: 'sliding', max: 2, per: '1m', guard: 0 })
const sync = task('tenant.sync', input<{ tenant: string; call: number }>(), {
  limits: [crm.by((job) => job.tenant)],
  run: ({ tenant, call }) => say(`starts ${tenant} ${call}`),
})
const report = task('report', { run: () => say('starts report') })

const sluice = new Sluice({
  store: 'sqlite::memory:',
  tasks: [sync, report],
  queues: { default: { concurrency: 2 } },
  clock,
})
await sluice.start()
sluice.on('rate_limit.exceeded', ({ limit: name, key, waitingJobs, nextAt }) =>
  say(`closes ${name} · ${key}: ${waitingJobs} jobs wait, the next may start at ${secondsTo(nextAt)}`),
)

// acme uses up its two calls of the minute.
await (await sync.enqueue({ tenant: 'acme', call: 1 })).result()
await clock.advance('5s')
await (await sync.enqueue({ tenant: 'acme', call: 2 })).result()
await clock.advance('15s')

// Six jobs arrive together.
const [acme] = await Promise.all([
  sync.enqueueMany([3, 4, 5].map((call) => ({ tenant: 'acme', call }))),
  sync.enqueueMany([1, 2].map((call) => ({ tenant: 'birch', call }))),
  report.enqueue(),
])
await clock.advance('1s')
for (const job of acme) {
  const { position, expectedStart, exact } = await sluice.jobs.explain(job.id)
  say(`acme waits at position ${position}, starts at ${secondsTo(expectedStart)}, ${exact ? 'exactly' : 'or later'}`)
}
await clock.advance('99s')
await sluice.stop()
