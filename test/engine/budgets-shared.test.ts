// One budget on Redis, or on NATS, for jobs of two stores and for plain calls, in real time.
import { describe, expect, it, onTestFinished } from 'vitest'
import { input, limit, Sluice, task } from '../../src/exports/index.ts'
import { createLimiter } from '../../src/exports/limiter.ts'
import { service } from '../services.ts'
import { onPostgres, onSqlite, type StoreKind } from '../stores.ts'

const REDIS = await service('redis', 'budgets on Redis')
const NATS = await service('nats', 'budgets on NATS')
const POSTGRES = await onPostgres('budgets of two stores')

const RATE = 100
/** So many starts are waited for: the first window, and the next one. */
const STARTS = 2 * RATE
const STORES = [onSqlite, ...(POSTGRES ? [POSTGRES] : [])]
let spaces = 0

describe.each([
  ['Redis', REDIS],
  ['NATS', NATS],
] as const)('one budget on %s', (_, backend) => {
  it.skipIf(backend === null)('is never exceeded by two stores and plain calls', async () => {
    const namespace = `test-${process.pid}-${Date.now().toString(36)}-${++spaces}`
    const shared = limit('shared', { window: 'sliding', max: RATE, per: '1s', backend: 'shared' })
    const budgets = { shared: { backend: backend!, namespace } }
    const starts: number[] = []
    const begin = (): void => void starts.push(performance.now())
    const engine = async (kind: StoreKind): Promise<Sluice> => {
      const call = task('call', input<null>(), { limits: [shared], run: begin })
      const sluice = new Sluice({ store: kind.create(), tasks: [call], budgets, queues: { default: 100 } })
      onTestFinished(() => sluice.stop({ within: 0 }))
      await sluice.limits.list()
      for (let n = 0; n < 2; n++) await call.enqueueMany(Array.from({ length: 500 }, () => null))
      return sluice
    }
    const engines = [await engine(onSqlite), ...(POSTGRES ? [await engine(POSTGRES)] : [])]
    const limiter = createLimiter({ backend: backend!, namespace, limits: [shared] })
    onTestFinished(() => limiter.close())
    await limiter.inspect(shared)
    const beganMs = performance.now()
    await Promise.all(engines.map((each) => each.start()))
    // A busy machine decides how long it takes, and how much each of them gets: budgets-fair.test.ts has that by a manual clock.
    const callers = Array.from({ length: 100 }, async () => {
      while (starts.length < STARTS) {
        await limiter.acquire([shared])
        begin()
      }
    })
    await Promise.race(callers)
    const seconds = ((starts[STARTS - 1] ?? Infinity) - beganMs) / 1000
    // The first window begins with the first start; a busy machine may begin the last one late.
    expect(STARTS).toBeLessThanOrEqual(RATE * (seconds + 1))
  })

  it.skipIf(backend === null).each(STORES)(
    'costs nothing where another budget denies: each tenant starts what it may, on $name',
    async (kind) => {
      const namespace = `test-${process.pid}-${Date.now().toString(36)}-${++spaces}`
      const perTenant = limit('tenant', { rate: 5, per: '1h', backend: 'shared' })
      const all = limit('all', { rate: 100, per: '1h', backend: 'shared' })
      const starts: string[] = []
      const call = task('call', input<string>(), {
        limits: [perTenant.by((tenant) => tenant), all],
        run: (tenant) => void starts.push(tenant),
      })
      const sluice = new Sluice({
        store: kind.create(),
        tasks: [call],
        budgets: { shared: { backend: backend!, namespace } },
        queues: { default: 100 },
      })
      onTestFinished(() => sluice.stop({ within: 0 }))
      await call.enqueueMany(Array.from({ length: 50 }, () => 't0'))
      const others = Array.from({ length: 19 }, (_, i) => `t${i + 1}`)
      await call.enqueueMany(others.flatMap((tenant) => Array.from({ length: 5 }, () => tenant)))
      await sluice.start()
      await expect.poll(() => starts.length).toBe(100)
      expect(new Set(starts).size).toBe(20)
      for (const tenant of new Set(starts)) expect(starts.filter((each) => each === tenant)).toHaveLength(5)
      // Of 145 jobs, 45 were denied by their tenant's budget alone.
      expect(await sluice.limits.inspect('all')).toMatchObject([
        { available: expect.toSatisfy((units) => units < 1) as unknown },
      ])
    },
  )
})
