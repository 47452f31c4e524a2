// Limits that change while jobs wait. Run it with: npx node examples/live-control.ts
import { input, limit, Sluice, task } from '../src/exports/index.ts'

const crm = limit('crm', { rate: 5, per: '1m' })
let started = 0
const sync = task('tenant.sync', input<{ tenantId: string }>(), {
  limits: [crm.by((job) => job.tenantId)],
  run: () => void started++,
})

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [sync] })
await sluice.start()
sluice.on('rate_limit.exceeded', ({ key, nextAt }) => console.log(`${key} waits until ${nextAt?.toISOString()}`))

const jobs = await sync.enqueueMany(Array.from({ length: 20 }, () => ({ tenantId: 'acme' })))
await Promise.all(jobs.slice(0, 5).map((job) => job.result()))
console.log(`${started} of 20 have started: five a minute may`)

await sluice.limits.pause(crm, 'acme', { by: 'ann', reason: 'their outage' })
console.log((await sluice.jobs.explain(jobs[5]?.id ?? '')).words)
await sluice.limits.resume(crm, 'acme', { by: 'ann' })

await sluice.limits.override(crm, 'acme', { rate: 20, per: '1s' }, { until: '1h', by: 'ann', reason: 'the backlog' })
await Promise.all(jobs.map((job) => job.result()))
console.log(`${started} of 20 have started: at twenty a second`)

for (const { kind, change, by, reason, since, ended } of await sluice.limits.overrides(crm))
  console.log(since.toISOString(), kind, change ?? '', `by ${by}: ${reason}`, ended ? 'over' : 'in force')
await sluice.limits.clearOverride(crm, 'acme', { by: 'ann' })

await sluice.stop()
