// A test of a flow of thirty days, in milliseconds. Run it with: npx node examples/testing-flows.ts
import { strictEqual } from 'node:assert'
import { input, Sluice } from '../src/exports/index.ts'
import { createManualClock } from '../src/exports/testing.ts'
import { workflow } from '../src/exports/flows.ts'

let mails = 0
const trial = workflow('trial', input<{ user: string }>(), {
  signals: { paid: input<{ plan: string }>() },
  async run({ user }, flow) {
    await flow.step('welcome', () => void mails++)
    const paid = await flow.signal('paid', { within: '30d' })
    if (paid) return `${user} has ${paid.plan}`
    await flow.step('goodbye', () => void mails++)
    return `${user} left`
  },
})

const clock = createManualClock()
// Every step suspends the body, so that code which cannot be entered again fails here and not in production.
const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [], workflows: [trial], clock, enterAlways: true })
await sluice.start()
const [ann, bob] = await trial.startMany([{ user: 'ann' }, { user: 'bob' }])
await clock.advance('29d')
await trial.signal(ann?.id ?? '', 'paid', { plan: 'team' })
await clock.advance('2d')
strictEqual(await ann?.result(), 'ann has team')
strictEqual(await bob?.result(), 'bob left')
strictEqual(mails, 3)
console.log('two trials of a month, three mails')
await sluice.stop()
