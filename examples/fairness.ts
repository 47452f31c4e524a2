// The start order: fair keys, shares, headroom, ageing. Run it with: npx node examples/fairness.ts
import { input, limit, Sluice, task } from '../src/exports/index.ts'

interface Render {
  readonly tenant: string
  readonly plan: 'free' | 'pro'
}

// One at a time, so that only the order counts. A limit is not needed for tenants to take turns.
const order: string[] = []
const render = task('render', input<Render>(), {
  queue: 'render',
  fairKey: (job) => job.tenant,
  share: (job) => (job.plan === 'pro' ? 3 : 1),
  run: ({ tenant }) => void order.push(tenant),
})

// The last two of ten units are for jobs of priority 50 and above.
const llm = limit('llm', { rate: 10, per: '1s', headroom: { units: 2, priority: 50 } })
const asked: string[] = []
const ask = task('ask', input<{ who: string }>(), { limits: [llm], run: ({ who }) => void asked.push(who) })

const sluice = new Sluice({
  store: 'sqlite::memory:',
  tasks: [render, ask],
  queues: { render: { concurrency: 1 }, default: { concurrency: 20 } },
  // One step of priority for each ten minutes of waiting, so low-priority jobs are never starved.
  ageing: '10m',
})

const many = (count: number, job: Render): Render[] => Array.from({ length: count }, () => job)
const renders = [
  ...(await render.enqueueMany(many(40, { tenant: 'free', plan: 'free' }))),
  ...(await render.enqueueMany(many(6, { tenant: 'pro', plan: 'pro' }))),
]
const why = await sluice.jobs.explain(renders[40]?.id ?? '')
console.log(why.words)

const bulk = await ask.enqueueMany(Array.from({ length: 12 }, () => ({ who: 'bulk' })))
await sluice.start()
await Promise.all(renders.map((job) => job.result()))
console.log(`${order.slice(0, 8).join(' ')}: three starts of pro for one of free, however deep the backlog`)

await Promise.all(bulk.slice(0, 8).map((job) => job.result()))
const [budget] = await sluice.limits.inspect(llm)
console.log(
  `${asked.length} asked in bulk; of ${budget?.available} left, ${budget?.headroom?.units} are kept for users`,
)
await (await ask.enqueue({ who: 'user' }, { priority: 50 })).result()
console.log(`the user did not wait: ${asked.slice(8).join(', ')}`)

await sluice.stop()
