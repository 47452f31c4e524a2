// A function whose steps are remembered. Run it with: npx node examples/workflow.ts
import { input, limit, Sluice, task } from '../src/exports/index.ts'
import { workflow } from '../src/exports/flows.ts'

interface Order {
  readonly id: string
  readonly tenant: string
  readonly items: readonly string[]
}

const payments = limit('payments', { every: '20ms' })
const perTenant = limit('tenant', { rate: 5, per: '1s' })
const carrier = limit('carrier', { every: '10ms' })

const ship = task('ship', input<{ item: string }>(), {
  limits: [carrier],
  run: ({ item }) => ({ label: `label-${item}` }),
})

const order = workflow('order', input<Order>(), {
  key: ({ id }) => id,
  async run({ id, tenant, items }, flow) {
    const price = await flow.step('price', () => items.length * 100)
    const charge = await flow.step(
      'charge',
      { limits: [payments, perTenant.key(tenant)], retry: { attempts: 3 } },
      (step) => ({ receipt: `receipt-${id}`, cents: price, key: step.key.length > 0 }),
    )
    await flow.sleep('cool off', '50ms')
    const parcels = await flow.map(
      'parcels',
      ship,
      items.map((item) => ({ item })),
    )
    return { receipt: charge.receipt, labels: parcels.map(({ label }) => label) }
  },
})

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [ship], workflows: [order] })
sluice.on('step.completed', ({ step }) => console.log('done:', step))
await sluice.start()

const flow = await order.start({ id: 'o-1', tenant: 'acme', items: ['cup', 'pot'] })
const again = await order.start({ id: 'o-1', tenant: 'acme', items: [] })
console.log('the same flow:', again.duplicate, again.id === flow.id)
console.log(JSON.stringify(await flow.result()))
await sluice.stop()
