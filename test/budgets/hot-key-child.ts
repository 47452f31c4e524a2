// One of many processes at one budget: `calls` takes what it gets until it is refused, `jobs` runs jobs of its own store
// until none has started for ten seconds. It prints how many started.
import { createLimiter, limit, RateLimitRejected } from '../../src/exports/limiter.ts'
import { input, Sluice, task } from '../../src/exports/index.ts'

const [role = '', backend = '', namespace = ''] = process.argv.slice(2)
const policy = { rate: 100, per: '365d', burst: 100 } as const
let starts = 0

process.stdout.write('ready\n')
await new Promise((resolve) => process.stdin.once('data', resolve))
if (role === 'calls') {
  const api = limit('api', policy)
  const named = /^(sqlite|postgres)/.test(backend) ? {} : { namespace }
  const limiter = createLimiter({ backend, ...named, limits: [api] })
  const work = async (): Promise<void> => {
    for (;;) {
      // The next unit is days away: the wait is for others that write, and what is used up is refused at once.
      await limiter.acquire([api], { wait: '60s' })
      starts++
    }
  }
  for (const { reason } of (await Promise.allSettled([work(), work(), work()])) as PromiseRejectedResult[])
    if (!(reason instanceof RateLimitRejected)) throw reason
  await limiter.close()
} else {
  const api = limit('api', { ...policy, backend: 'shared' })
  let lastMs = performance.now()
  const call = task('call', input<null>(), {
    limits: [api],
    run: () => {
      starts++
      lastMs = performance.now()
    },
  })
  const sluice = new Sluice({
    store: 'sqlite::memory:',
    tasks: [call],
    budgets: { shared: { backend, namespace } },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  })
  await call.enqueueMany(Array.from({ length: 100 }, () => null))
  await sluice.start()
  lastMs = performance.now()
  while (performance.now() - lastMs < 10_000) await new Promise((resolve) => setTimeout(resolve, 100))
  await sluice.stop({ within: 0 })
}
process.stdout.write(`${starts}\n`)
process.exit(0)
