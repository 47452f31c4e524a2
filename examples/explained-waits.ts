// Why does it wait, and until when? Run it with: npx node examples/explained-waits.ts
import { forecast, input, limit, Sluice, task } from '../src/exports/index.ts'

const crm = limit('crm', { rate: 2, per: '1s', burst: 1 })

const syncTenant = task('tenant.sync', input<{ tenant: string }>(), {
  limits: [crm.by((job) => job.tenant)],
  run: ({ tenant }) => tenant,
})

// Before anything runs: how long would a migration of 40 tenants take, and would a higher plan help?
const migration = { backlog: { count: 20_000, keys: 40 } }
const { drainMs, p50Ms, doubled } = forecast({ rate: 2, per: '1s', burst: 1 }, migration)
console.log(
  `20,000 jobs of 40 tenants: ${drainMs} ms, half of them within ${p50Ms} ms; at twice the rate ${doubled.drainMs} ms`,
)

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [syncTenant] })
await sluice.start()
const jobs = await syncTenant.enqueueMany(['acme', 'acme', 'acme', 'acme', 'birch'].map((tenant) => ({ tenant })))
await jobs[0]?.result()

// One job: the budget that holds it, its place, its expected start.
const last = jobs[3]?.id ?? ''
const why = await sluice.jobs.explain(last)
console.log(why.words)

// All waiting jobs, by queue and budget, the longest wait list first.
console.log(await sluice.limits.waiting())

// The same as a forecast from the store: these jobs, these budgets as they are now.
const left = await sluice.forecast(crm)
console.log(`${left.jobs} jobs left, the last starts in ${left.drainMs} ms`)

await jobs[3]?.result()
const startedAt = (await sluice.jobs.get(last))?.startedAt
console.log(`expected at ${why.expectedStart?.toISOString()}, started at ${startedAt?.toISOString()}`)
await sluice.stop()
