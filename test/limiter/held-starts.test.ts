// Starts that a backend grants ahead, and that their process holds until their instants.
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { createLimiter, limit, type Limit, type LimitBackend, type UnitRequest } from '../../src/exports/limiter.ts'
import { MemoryBackend } from '../../src/limiter/memory/memory.ts'
import { RedisBackend } from '../../src/limiter/redis/backend.ts'
import { createManualClock, type ManualClock } from '../../src/testing/manual-clock.ts'
import { patientClock } from './patient-clock.ts'
import { clear, connect, namespace, REDIS } from './redis-server.ts'

/** The way of an answer: a start is paid that far ahead, and more. */
const WAY_MS = 90

const client = REDIS === null ? null : await connect()
const ending: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const end of ending.splice(0).reverse()) await end()
})
afterAll(async () => client?.close())

const BACKENDS: Readonly<Record<string, (clock: ManualClock) => LimitBackend>> = {
  memory: (clock) => new MemoryBackend(clock),
  ...(client && {
    Redis: (clock) => {
      const name = namespace()
      ending.push(() => clear(client, name))
      const nowUs = (): number => Math.round(clock.now() * 1000)
      return new RedisBackend(client, { namespace: name, nowUs, close: async () => undefined })
    },
  }),
}

/** A limiter that is far from its backend. `held`: a start was granted for later. */
function far(open: (clock: ManualClock) => LimitBackend, limits: readonly Limit[]) {
  const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
  const near = open(clock)
  const state = { asking: 0, onTheWay: 0, held: 0, stalledMs: 0, stallsMs: 0, log: [] as string[] }
  const way = async (): Promise<void> => {
    state.onTheWay++
    await new Promise<void>((resolve) => clock.setTimer(resolve, WAY_MS))
    state.onTheWay--
  }
  // A server answers in real time: until it has, the clock stands still, although other answers are on their way.
  const detach = clock.attach?.({ running: () => 0, pending: () => state.asking > 0 })
  ending.push(async () => detach?.())
  const asked = async <T>(answer: Promise<T>): Promise<T> => {
    state.asking++
    return answer.finally(() => state.asking--)
  }
  const own: Partial<LimitBackend> = {
    isLocal: false,
    acquire: async (requests: readonly UnitRequest[]) => {
      state.log.push(`ask for ${requests.length}`)
      const answers = await asked(near.acquire(requests))
      await way()
      return answers.map((answer) => {
        if (answer.kind === 'granted') {
          const startInUs = (answer.startInUs ?? 0) - WAY_MS * 1000
          if (startInUs <= 0) return { ...answer, startInUs }
          state.held++
          state.stalledMs = state.stallsMs
          return { ...answer, startInUs }
        }
        if (answer.kind !== 'denied' || answer.retryAfterUs === null) return answer
        return { ...answer, retryAfterUs: Math.max(0, answer.retryAfterUs - WAY_MS * 1000) }
      })
    },
    charge: async (bucket, units, atUs) => {
      await asked(near.charge(bucket, units, atUs))
      await way()
      state.log.push(`${units} is back`)
    },
  }
  const backend = new Proxy(near, {
    get: (_, name) => {
      const value: unknown = Object.hasOwn(own, name) ? own[name as keyof LimitBackend] : Reflect.get(near, name, near)
      return typeof value === 'function' ? (value.bind(near) as unknown) : value
    },
  })
  const patient = patientClock(clock, () => state.onTheWay)
  const stalled = {
    ...patient,
    setTimer: (run: () => void, delayMs: number) => patient.setTimer(run, delayMs + state.stalledMs),
  }
  const limiter = createLimiter({ backend, limits, clock: stalled })
  ending.push(() => limiter.close())
  return { clock, limiter, near, state }
}

describe.each(Object.entries(BACKENDS))('a start on %s that was granted for later', (_, open) => {
  /** Waits until the limiter holds a start of each of so many callers. The first ones teach it the way. */
  async function holding(count: number, signal?: AbortSignal) {
    const api = limit('api', { window: 'sliding', max: count, per: '10s' })
    const all = far(open, [api])
    const { clock, limiter, state } = all
    const acquire = async (): Promise<void> => void (await limiter.acquire([api], signal ? { signal } : {}))
    const first = Promise.all(Array.from({ length: count }, acquire))
    await clock.advance('2s')
    await first
    Object.assign(state, { held: 0, log: [], stallsMs: signal ? 0 : 200 })
    const order: number[] = []
    const calls = Array.from({ length: count }, (__, i) => acquire().then(() => order.push(i)))
    const settled = Promise.allSettled(calls)
    for (let ms = 0; state.held < count && ms < 20_000; ms += 10) await clock.advance('10ms')
    expect([state.held, order]).toEqual([count, []])
    const nextInUs = async () => (await all.near.inspect({ limit: 'api', key: '' }))?.nextInUs
    return { ...all, acquire, order, settled, nextInUs }
  }

  it('goes back at once when its caller aborts, and another one gets it at its instant', async () => {
    const controller = new AbortController()
    const { clock, limiter, state, settled, nextInUs } = await holding(1, controller.signal)
    expect(await nextInUs()).toBeGreaterThan(10_000_000)
    controller.abort(new Error('enough'))
    expect(await settled).toMatchObject([{ status: 'rejected', reason: { message: 'enough' } }])
    await clock.advance('1ms')
    expect(await nextInUs()).toBeLessThan(WAY_MS * 1000 * 2)
    const next = limiter.acquire([limit('api', { window: 'sliding', max: 1, per: '10s' })])
    await clock.advance('500ms')
    await next
    expect(state.log.slice(-2)).toEqual(['-1 is back', 'ask for 1'])
  })

  it('and comes too late is asked for again once it is back, in the order of the callers', async () => {
    const { clock, state, order, settled } = await holding(3)
    Object.assign(state, { stalledMs: 0, stallsMs: 0, log: [] })
    await clock.advance('30s')
    await settled
    expect(order).toEqual([0, 1, 2])
    expect(state.log.slice(0, 4)).toEqual(['-1 is back', '-1 is back', '-1 is back', 'ask for 3'])
  })
})
