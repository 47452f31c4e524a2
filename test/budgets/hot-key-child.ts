// One of many processes at one budget: `calls` takes what it gets until it is refused, `jobs` runs jobs of its own store.
// It prints `ready`, a `+` for each start, `down` when the backend does not answer, and `refused` once its calls have been.
import { createLimiter, limit, RateLimitRejected } from '../../src/exports/limiter.ts'
import { HOT } from './hot-key-policy.ts'

const [role = '', backend = '', namespace = ''] = process.argv.slice(2)
const tell = (line: string): void => void process.stdout.write(`${line}\n`)
const begin = async (): Promise<void> => {
  tell('ready')
  await new Promise((resolve) => process.stdin.once('data', resolve))
}

if (role === 'calls') {
  await begin()
  const api = limit('api', HOT)
  const named = /^(sqlite|postgres)/.test(backend) ? {} : { namespace }
  const limiter = createLimiter({ backend, ...named, limits: [api] })
  limiter.on('rate_limit.backend_down', () => tell('down'))
  const work = async (): Promise<void> => {
    for (;;) {
      // The next unit is days away: the wait is for others that write, and what is used up is refused at once.
      await limiter.acquire([api], { wait: '60s' })
      tell('+')
    }
  }
  for (const { reason } of (await Promise.allSettled([work(), work(), work()])) as PromiseRejectedResult[])
    if (!(reason instanceof RateLimitRejected)) throw reason
  await limiter.close()
  tell('refused')
} else {
  const { input, silentLogger, Sluice, task } = await import('../../src/exports/index.ts')
  const api = limit('api', { ...HOT, backend: 'shared' })
  const call = task('call', input<null>(), { limits: [api], run: () => tell('+') })
  const budgets = { shared: { backend, namespace } }
  const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [call], budgets, logger: silentLogger })
  sluice.on('rate_limit.backend_down', () => tell('down'))
  await call.enqueueMany(Array.from({ length: HOT.rate }, () => null))
  await begin()
  await sluice.start()
}
