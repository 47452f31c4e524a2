// Another process at a backend that several share. `hold` takes permits and keeps them, `work` keeps them by jobs of its
// own store; `penalize` closes a bucket, and `override` raises its rate for so many ms. It prints `held` and when it began
// to ask, in epoch ms.
import { input, limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { createLimiter } from '../../src/exports/limiter.ts'

const [role = '', backend = '', namespace = '', given = '0'] = process.argv.slice(2)
const count = Number(given)
let askedMs = 0
const told = (): void => void process.stdout.write(`held ${askedMs}\n`)

if (role === 'work') {
  const slots = limit('slots', { concurrency: 10, backend: 'shared' })
  const started = Promise.withResolvers<void>()
  let running = 0
  const hold = task('hold', input<null>(), {
    limits: [slots],
    run: () => {
      if (++running === count) started.resolve()
      return new Promise<void>(() => undefined)
    },
  })
  const budgets = { shared: { backend, namespace } }
  const engine = new Sluice({ store: 'sqlite::memory:', tasks: [hold], budgets, lease: '2s', logger: silentLogger })
  await hold.enqueueMany(Array.from({ length: count }, () => null))
  askedMs = Date.now()
  await engine.start()
  await started.promise
  told()
} else {
  const slots = limit('slots', { concurrency: 10 })
  const api = limit('api', { rate: 10, per: '1s', burst: 1 })
  const limiter = createLimiter({ backend, namespace, limits: [slots, api], lease: '2s' })
  askedMs = Date.now()
  if (role === 'hold') await Promise.all(Array.from({ length: count }, () => limiter.acquire([slots])))
  if (role === 'penalize') await limiter.penalize(api.key('a'), count)
  if (role === 'override') await limiter.override(api, { rate: 1000 }, { until: count })
  told()
  setInterval(() => undefined, 1000)
}
