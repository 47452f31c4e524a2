// One API key that allows 100 calls per second. Each tenant has 5 of them for certain, and may use up to 20.
// A tenant with a deep backlog gets what the others leave, and no more.
// Run it with: npx node examples/guaranteed-shares.ts
import { input, limit, Sluice, task } from '../src/exports/index.ts'
import { createManualClock } from '../src/exports/testing.ts'

const outbound = limit('outbound', { rate: 100, per: '1s' })
const tenantCalls = limit('tenant-calls', {
  rate: 20,
  per: '1s',
  of: { limit: outbound, atLeast: '5/s', keys: 10 },
})

const clock = createManualClock()
let imported = 0
let slowestMs = 0

const importRow = task('import.row', {
  limits: [outbound],
  run: () => void imported++,
})
const callApi = task('call.api', input<{ tenant: string; at: number }>(), {
  limits: [tenantCalls.by(({ tenant }) => tenant)],
  run: ({ at }) => void (slowestMs = Math.max(slowestMs, clock.now() - at)),
})

const sluice = new Sluice({ store: 'sqlite::memory:', clock, tasks: [importRow, callApi] })
await importRow.enqueueMany(
  Array.from({ length: 1000 }, () => undefined),
  { priority: 50 },
)
await sluice.start()
await clock.advance('1s')

const before = imported
await clock.advance('1s')
console.log(`alone, the import makes ${imported - before} calls per second`)

const beside = imported
for (let n = 0; n < 5; n++) {
  for (let i = 0; i < 10; i++) await callApi.enqueue({ tenant: `tenant-${i}`, at: clock.now() })
  await clock.advance('200ms')
}
console.log(`beside ten tenants at 5 per second each, it makes ${imported - beside}`)
console.log(`the slowest call of a tenant waited ${slowestMs} ms`)

const stopping = sluice.stop({ within: 0 })
await clock.advance('1s')
await stopping
