import { describe, expect, it } from 'vitest'
import { internalsOf } from '../../src/engine/internals.ts'
import { input, limit, type Policy, type Sluice, task } from '../../src/exports/index.ts'
import type { ManualClock } from '../../src/exports/testing.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness } from './engine-harness.ts'

interface Call {
  readonly account: number
  readonly tenant: number
}

const strict = (rate: number): Policy => ({ rate, per: '1s', burst: 1 })
const ALL = limit('all', strict(200))
const TENANT = limit('tenant', strict(3))
const ACCOUNT = limit('account', strict(13))
/** Enough for 2.5 s. */
const JOBS = 600

/** Lets each claim take so long: half before the store decides, and half with its answer. */
async function slowDown(engine: Sluice, clock: ManualClock, ms: number): Promise<void> {
  const { store } = await internalsOf(engine).open()
  const claim = store.claim.bind(store)
  store.claim = async (request) => {
    await clock.sleep(ms / 2)
    const claimed = await claim(request)
    await clock.sleep(ms / 2)
    return claimed
  }
}

describe.each(await everyStore('strict limits within strict limits'))(
  'strict limits within strict limits, on $name',
  ({ create }) => {
    it.each([
      ['of a tenant and of all', 30, [ALL, TENANT.by('tenant')]],
      ['of a tenant and of all', 90, [ALL, TENANT.by('tenant')]],
      ['of an account, a tenant and all', 90, [ALL, ACCOUNT.by('account'), TENANT.by('tenant')]],
    ] as const)('%s are used whole while claims take %i ms', async (_, ms, limits) => {
      const { clock, start } = createEngineHarness()
      const startsMs: number[] = []
      const call = task('call', input<Call>(), {
        limits: [...limits],
        run: () => void startsMs.push(clock.monotonicUs() / 1000),
      })
      const engine = await start({
        tasks: [call],
        store: create(),
        ahead: '50ms',
        queues: { default: { concurrency: 100 } },
      })
      await clock.advance(0)
      await call.enqueueMany(Array.from({ length: JOBS }, (__, n) => ({ account: n % 17, tenant: n % 100 })))
      await slowDown(engine, clock, ms)
      await clock.advance('500ms')
      const fromMs = clock.monotonicUs() / 1000
      await clock.advance('2s')
      const counted = startsMs.filter((at) => at > fromMs)
      // One more or less, by the instants at both ends.
      expect(Math.abs(counted.length - 400)).toBeLessThanOrEqual(1)
      const gaps = counted.slice(1).map((at, i) => at - counted[i]!)
      expect(Math.min(...gaps)).toBeGreaterThanOrEqual(4.5)
    })
  },
)
