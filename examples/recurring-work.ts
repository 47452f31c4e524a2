// Recurring work under a limit, on the system's clock. Run it with: npx node examples/recurring-work.ts
import { setTimeout as sleep } from 'node:timers/promises'
import { input, limit, silentLogger, Sluice, task } from '../src/exports/index.ts'

const api = limit('api', { rate: 1, per: '700ms', burst: 1, maxWait: '1s' })

const syncTenant = task('tenant.sync', input<{ tenant: string }>(), {
  limits: [api.by((call) => call.tenant)],
  run: ({ tenant }, ctx) => {
    const { dueAt } = ctx.job.occurrence ?? {}
    console.log(`${tenant}: due at ${dueAt?.toISOString().slice(17, 23)} s, started`)
  },
})

// The schedule is faster than its limit. Sluice would warn; here it is intended.
const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [syncTenant], logger: silentLogger })
sluice.on('schedule.skipped', ({ dueAt, reason }) =>
  console.log(`acme: due at ${dueAt.toISOString().slice(17, 23)} s, skipped: ${reason}`),
)
await sluice.start()

await sluice.schedule(
  syncTenant,
  { tenant: 'acme' },
  { every: '400ms', name: 'sync acme', immediately: true, maxRuns: 4 },
)
const nightly = await sluice.schedule(
  syncTenant,
  { tenant: 'acme' },
  { cron: '30 2 * * *', timezone: 'Europe/Paris', name: 'nightly' },
)
console.log(`${nightly.name}: next at ${nightly.nextAt?.toISOString()}`)

await new Promise<void>((resolve) => sluice.on('schedule.ended', () => resolve()))
await sleep(700)

console.log((await sluice.schedules.list()).map(({ name, state, runs }) => ({ name, state, runs })))
console.log('removed:', await sluice.schedules.remove('nightly'))
await sluice.stop()
