// Jobs that wait for each other. Run it with: npx node examples/chains-groups-batches.ts
import { call, input, limit, NonRetryable, Sluice, task } from '../src/exports/index.ts'

interface Order {
  readonly order: number
}

const stripe = limit('stripe', { every: '50ms' })
let outage = true

const charge = task('charge', input<Order>(), { limits: [stripe], run: ({ order }) => ({ receipt: `r${order}` }) })
const ship = task('ship', input<Order>(), {
  run({ order }, ctx) {
    if (outage && order === 18) throw new NonRetryable('no van today')
    const [charged] = ctx.job.parentResults ?? []
    return { parcel: order, charged }
  },
})
const thank = task('thank', input<Order>(), { run: (_, ctx) => ctx.job.parentResults })
const report = task('report', {
  run: (_, ctx) => console.log('all charged:', JSON.stringify(ctx.job.parentResults)),
})

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [charge, ship, thank, report] })
await sluice.start()
sluice.on('flow.failed', ({ name }) => console.log(`${name} failed`))

const stepsOf = (order: number) => [call(charge, { order }), call(ship, { order }), call(thank, { order })]
const fine = await sluice.flows.start({ kind: 'chain', name: 'order 17', steps: stepsOf(17) })
console.log('order 17:', JSON.stringify(await fine.jobs.at(-1)?.result()))

const broken = await sluice.flows.start({ kind: 'chain', name: 'order 18', steps: stepsOf(18) })
await broken.jobs[2]?.result().catch((error: Error) => console.log(error.message))
console.log((await sluice.flows.jobs(broken.id)).map(({ task: name, state }) => `${name} ${state}`).join(', '))

outage = false
await sluice.jobs.retry(broken.jobs[1]?.id ?? '')
console.log('order 18:', JSON.stringify(await broken.jobs.at(-1)?.result()))

const batch = await sluice.flows.start({
  kind: 'batch',
  jobs: [1, 2, 3].map((order) => call(charge, { order })),
  callbacks: { onSuccess: call(report) },
})
const [called] = (await sluice.flows.jobs(batch.id)).filter(({ flow }) => flow?.callback === 'success')
while ((await sluice.jobs.get(called?.id ?? ''))?.state !== 'completed')
  await new Promise((then) => setTimeout(then, 20))
const { state, completed, total } = (await sluice.flows.get(batch.id)) ?? {}
console.log({ state, completed, total })
await sluice.stop()
