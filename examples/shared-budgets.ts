// One budget for the jobs of two stores and for plain code, on Redis. It needs a Redis; SLUICE_TEST_REDIS names another
// than that of this machine. Run it with: npx node examples/shared-budgets.ts
import { input, limit, Sluice, task } from '../src/exports/index.ts'
import { createLimiter } from '../src/exports/limiter.ts'

const backend = process.env['SLUICE_TEST_REDIS'] ?? 'redis://127.0.0.1:6379'
const namespace = `example-${process.pid}`
const stripe = limit('stripe', { window: 'sliding', max: 12, per: '1s', backend: 'shared' })
const begun = Date.now()
const starts: { readonly by: string; readonly ms: number }[] = []
const start = (by: string): void => void starts.push({ by, ms: Date.now() - begun })

// Two stores, as of two services. The budget is none of theirs.
const engines = ['invoices', 'refunds'].map((name) => {
  const charge = task('charge', input<{ amount: number }>(), { limits: [stripe], run: () => start(name) })
  return {
    charge,
    sluice: new Sluice({
      store: 'sqlite::memory:',
      tasks: [charge],
      budgets: { shared: { backend, namespace } },
    }),
  }
})
for (const { charge, sluice } of engines) {
  await sluice.start()
  await charge.enqueueMany(Array.from({ length: 6 }, (_, amount) => ({ amount })))
}

// Code without jobs draws from the same budget, by the same limit.
const limiter = createLimiter({ backend, namespace, limits: [stripe] })
await limiter.run([stripe], () => start('plain code'))
while (starts.length < 13) await new Promise((resolve) => setTimeout(resolve, 10))

const first = starts.filter(({ ms }) => ms < 1000).length
console.log(`12 starts in a second are allowed: ${first > 12 ? 'more' : 'no more'} came in the first`)
const [bucket] = (await engines[0]?.sluice.limits.inspect('stripe')) ?? []
console.log(`the budget is kept by the backend ${bucket?.backend}`)

await limiter.close()
await Promise.all(engines.map(({ sluice }) => sluice.stop()))
