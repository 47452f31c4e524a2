// A flow that waits for a person, for at most a week. Run it with: npx node examples/approvals.ts
import { setTimeout as sleep } from 'node:timers/promises'
import { input, Sluice } from '../src/exports/index.ts'
import { workflow } from '../src/exports/flows.ts'

const refund = workflow('refund', input<{ charge: string; cents: number }>(), {
  key: ({ charge }) => charge,
  signals: { approved: input<{ by: string }>() },
  async run({ charge, cents }, flow) {
    if (cents > 10_000) {
      const approval = await flow.signal('approved', { within: '7d' })
      if (approval === null) return { refunded: false, by: null }
      await flow.step('refund', () => charge)
      return { refunded: true, by: approval.by }
    }
    await flow.step('refund', () => charge)
    return { refunded: true, by: null }
  },
})

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [], workflows: [refund] })
await sluice.start()

const flow = await refund.start({ charge: 'ch_1', cents: 25_000 })
await sleep(100)
console.log((await sluice.flows.explain(flow.id))?.words)
await refund.signal({ key: 'ch_1' }, 'approved', { by: 'ann' }, { once: 'click-1' })
console.log(JSON.stringify(await flow.result()))
await sluice.stop()
