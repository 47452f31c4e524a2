// A machine that lives for years: each step says where it goes next. Run it with: npx node examples/machine.ts
import { input, limit, Sluice } from '../src/exports/index.ts'
import { machine } from '../src/exports/flows.ts'

const bank = limit('bank', { every: '20ms' })

interface Account {
  readonly customer: string
  readonly months: number
}

const subscription = machine('subscription', {
  states: { charge: input<Account>(), wait: input<Account>(), decide: input<Account>() },
  signals: { stop: input<{ reason: string }>() },
  first: 'charge',
  key: ({ customer }) => customer,
  // Each flow that reaches this step pays, from any step.
  limits: { charge: [bank] },
  retry: { attempts: 5 },
  run: {
    charge: (account, to) => to.next('wait', { ...account, months: account.months + 1 }),
    // A month, in an example of some milliseconds.
    wait: (account, to) => to.wait(['stop'], 'decide', account, { within: '50ms' }),
    decide(account, to) {
      const [stop] = to.signals
      if (stop) return to.done({ months: account.months, reason: stop.payload.reason })
      return to.next('charge', account)
    },
  },
  result: input<{ months: number; reason: string }>(),
})

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [], workflows: [subscription] })
await sluice.start()

const flow = await subscription.start({ customer: 'c-7', months: 0 })
setTimeout(() => void subscription.signal({ key: 'c-7' }, 'stop', { reason: 'moved away' }), 200)
const { months, reason } = await flow.result()
console.log(`charged more than once: ${months > 1}; ended: ${reason}`)
await sluice.stop()
