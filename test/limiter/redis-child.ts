// One process of a fleet: `load` starts as often as its budget lets it, and prints the instants that its backend decided,
// in µs on the backend's clock; `hold` takes permits and keeps them.
import { createLimiter, limit } from '../../src/exports/limiter.ts'
import type { GrantedStart } from '../../src/limiter/client/permit.ts'

const [role = '', backend = '', namespace = '', count = '0'] = process.argv.slice(2)
const api = limit('api', { rate: 1000, per: '1s', burst: 100 })
const slots = limit('slots', { concurrency: 10 })
const limiter = createLimiter({ backend, namespace, limits: [api, slots], lease: '2s' })

if (role === 'hold') {
  await Promise.all(Array.from({ length: Number(count) }, () => limiter.acquire([slots])))
  process.stdout.write('held\n')
  setInterval(() => undefined, 1000)
} else {
  // The first call loads the client and connects, which may take long on a busy machine.
  await limiter.inspect(api.key('hot'))
  process.stdout.write('ready\n')
  const starts: number[] = []
  const endUs = process.hrtime.bigint() / 1000n + BigInt(Number(count) * 1000)
  const work = async (): Promise<void> => {
    while (process.hrtime.bigint() / 1000n < endUs) {
      const permit = await limiter.acquire([api.key('hot')])
      starts.push((permit as GrantedStart).atUs)
      await permit.release()
    }
  }
  await Promise.all(Array.from({ length: 20 }, work))
  await limiter.close()
  process.stdout.write(`${JSON.stringify(starts)}\n`)
}
