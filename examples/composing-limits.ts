// Several limits on one job, all or nothing. Run it with: npx node examples/composing-limits.ts
import { input, limit, Sluice, task } from '../src/exports/index.ts'

const all = limit('all', { rate: 20, per: '1s', burst: 2 })
const tenant = limit('tenant', { window: 'sliding', max: 3, per: '1s' })
const tokens = limit('tokens', { rate: 100, per: '1s' })
const sockets = limit('sockets', { concurrency: 2, scope: 'worker' })
const apiKey = limit('api-key', { every: '250ms' })

const began = Date.now()
const ask = task('ask', input<{ tenant: string; tokens: number }>(), {
  limits: [all, tenant.by('tenant'), tokens.by((job) => job.tenant, { weight: (job) => job.tokens }), sockets],
  run: (job) => console.log(`${String(Date.now() - began).padStart(4)} ms  ${job.tenant} (${job.tokens} tokens)`),
})

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [ask], limits: [apiKey] })
await sluice.start()
const jobs = await ask.enqueueMany(
  Array.from({ length: 8 }, (_, i) => ({ tenant: i % 2 === 0 ? 'acme' : 'birch', tokens: 40 })),
)
// This call needs one more budget than its task says.
for (let i = 0; i < 2; i++)
  jobs.push(await ask.enqueue({ tenant: 'cedar', tokens: 1 }, { limits: [apiKey.key('k-17')] }))
await Promise.all(jobs.map((job) => job.result()))

for (const { worker, capacity } of await sluice.limits.inspect(sockets))
  console.log(`worker ${worker} has ${capacity} sockets of its own`)
await sluice.stop()
