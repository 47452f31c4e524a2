// A limit that tells what it would do, and is switched on while it runs.
// Run it with: npx node examples/shadow-mode.ts
import { limit, Sluice, task } from '../src/exports/index.ts'
import { createManualClock } from '../src/exports/testing.ts'

const crm = limit('crm', { rate: 10, per: '1s', burst: 1, mode: 'shadow' })
let runs = 0
const sync = task('sync', { limits: [crm], run: () => void runs++ })

const clock = createManualClock()
const sluice = new Sluice({ store: 'sqlite::memory:', clock, tasks: [sync] })
sluice.on('rate_limit.shadow', ({ delayMs }) => console.log(`would have waited ${delayMs} ms`))
await sluice.start()

await sync.enqueueMany(Array.from({ length: 4 }, () => undefined))
await clock.advance(0)
console.log(`${runs} jobs ran at once`)
const [bucket] = await sluice.limits.inspect('crm')
console.log(bucket?.shadow)

await clock.advance('1s')
await sluice.limits.override('crm', undefined, { mode: 'enforce' }, { reason: 'the figures are right' })
await sync.enqueueMany(Array.from({ length: 4 }, () => undefined))
await clock.advance(0)
console.log(`enforced: ${runs - 4} of 4 ran at once`)
await clock.advance('1s')
console.log(`after a second: ${runs - 4} of 4`)

const stopping = sluice.stop({ within: 0 })
await clock.advance('1s')
await stopping
