// New code while old flows sleep. Run it with: npx node examples/versions.ts
import { input, Sluice } from '../src/exports/index.ts'
import { createManualClock } from '../src/exports/testing.ts'
import { workflow } from '../src/exports/flows.ts'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const folder = mkdtempSync(join(tmpdir(), 'sluice-versions-'))
const store = `sqlite:${join(folder, 'flows.db')}`
const clock = createManualClock()

const before = workflow('invoice', input<{ cents: number }>(), {
  async run({ cents }, flow) {
    const total = await flow.step('total', () => cents)
    await flow.sleep('until the full hour', '1h')
    return flow.step('send', () => `invoice over ${total}`)
  },
})
const first = new Sluice({ store, tasks: [], workflows: [before], clock })
await first.start()
const old = await before.start({ cents: 100 })
await clock.advance('1s')
await first.stop()

// The deploy: a tax is added, but not to invoices whose total was told already.
const after = workflow('invoice', input<{ cents: number }>(), {
  async run({ cents }, flow) {
    const taxed = await flow.changed('tax')
    const total = await flow.step('total', () => (taxed ? Math.round(cents * 1.2) : cents))
    await flow.sleep('until the full hour', '1h')
    return flow.step('send', () => `invoice over ${total}`)
  },
})
const second = new Sluice({ store, tasks: [], workflows: [after], clock })
await second.start()
const fresh = await after.start({ cents: 100 })
await clock.advance('61m')
const results = await Promise.all([old, fresh].map(({ id }) => second.jobs.get(id)))
console.log(results.map((job) => job?.result))
await second.stop()
rmSync(folder, { recursive: true })
