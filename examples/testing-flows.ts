// A test of a flow of a whole day, in seconds. Run it with: npx node examples/testing-flows.ts
import { strictEqual } from 'node:assert'
import { input, Sluice } from '../src/exports/index.ts'
import { createManualClock } from '../src/exports/testing.ts'
import { workflow } from '../src/exports/flows.ts'

let mails = 0
const trial = workflow('trial', input<{ user: string }>(), {
  signals: { paid: input<{ plan: string }>() },
  async run({ user }, flow) {
    await flow.step('welcome', () => void mails++)
    const paid = await flow.signal('paid', { within: '1d' })
    if (paid) return `${user} has ${paid.plan}`
    await flow.step('goodbye', () => void mails++)
    return `${user} left`
  },
})

// Every step suspends the body, so that code which cannot be entered again fails here and not in production.
const clock = createManualClock({ enterAlways: true })
const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [], workflows: [trial], clock })
await sluice.start()
const [ann, bob] = await trial.startMany([{ user: 'ann' }, { user: 'bob' }])
await clock.advance('23h')
await trial.signal(ann?.id ?? '', 'paid', { plan: 'team' })
await clock.advance('2h')
strictEqual(await ann?.result(), 'ann has team')
strictEqual(await bob?.result(), 'bob left')
strictEqual(mails, 3)
console.log('two trials of a day, three mails')
await sluice.stop()
