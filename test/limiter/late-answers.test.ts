// Backends whose answers take their time: a start counts from its payment, and its caller may be far behind it.
import { afterEach, describe, expect, it } from 'vitest'
import {
  createLimiter,
  limit,
  type Limit,
  type Limiter,
  type UnitAnswer,
  type UnitRequest,
} from '../../src/exports/limiter.ts'
import { MemoryBackend } from '../../src/limiter/memory/memory.ts'
import { createManualClock, type ManualClock } from '../../src/testing/manual-clock.ts'
import { patientClock } from './patient-clock.ts'

/** The way of an answer, in ms, by the number of the question. */
type Way = (question: number) => number

/** Decides at once, and answers later. Its grants tell how old they are, as those of Redis and NATS do. */
class FarBackend extends MemoryBackend {
  override readonly isLocal = false as never
  readonly #clock: ManualClock
  readonly #way: Way
  questions = 0
  onTheWay = 0

  constructor(clock: ManualClock, way: Way) {
    super(clock)
    this.#clock = clock
    this.#way = way
  }

  override async acquire(requests: readonly UnitRequest[]): Promise<readonly UnitAnswer[]> {
    const wayMs = this.#way(this.questions++)
    const answers = await super.acquire(requests)
    this.onTheWay++
    await new Promise<void>((resolve) => this.#clock.setTimer(resolve, wayMs))
    this.onTheWay--
    const wayUs = wayMs * 1000
    return answers.map((answer) => {
      if (answer.kind === 'granted') return { ...answer, startInUs: (answer.startInUs ?? 0) - wayUs }
      if (answer.kind !== 'denied' || answer.retryAfterUs === null) return answer
      return { ...answer, retryAfterUs: Math.max(0, answer.retryAfterUs - wayUs) }
    })
  }
}

const limiters: Limiter[] = []
afterEach(async () => {
  await Promise.all(limiters.splice(0).map((limiter) => limiter.close()))
})

function far(limits: readonly Limit[], way: Way, processes = 1) {
  const clock = createManualClock()
  const backend = new FarBackend(clock, way)
  const patient = patientClock(clock, () => backend.onTheWay)
  const open = (): Limiter => createLimiter({ backend, limits, clock: patient })
  const opened = Array.from({ length: processes }, open)
  limiters.push(...opened)
  return { clock, backend, limiters: opened, limiter: opened[0] as Limiter }
}

/** The most starts within one period. */
function mostWithin(startsMs: readonly number[], periodMs: number): number {
  const sorted = startsMs.toSorted((a, b) => a - b)
  return Math.max(...sorted.map((fromMs, i) => sorted.slice(i).filter((ms) => ms < fromMs + periodMs).length))
}

const WAYS: [string, Way][] = [
  ['now and then late', (n) => (n % 4 === 3 ? 150 : 2)],
  ['late in turns of ten', (n) => (n % 20 < 10 ? 3 : 120)],
  ['always late', () => 90],
  ['later and later', (n) => Math.min(240, 2 * n)],
]

describe('answers that come', () => {
  const both = WAYS.flatMap(([name, way]) => [1, 2].map((processes) => [name, processes, way] as const))

  it.each(both)('%s, to %i: no window sees too many starts, and the budget is used', async (_, processes, way) => {
    const api = limit('api', { window: 'sliding', max: 20, per: '1s' })
    const { clock, limiters: all } = far([api], way, processes)
    const startsMs: number[] = []
    const work = all.flatMap((limiter) =>
      Array.from({ length: 400 / processes }, () => limiter.run([api], () => startsMs.push(clock.now()))),
    )
    await clock.advance('30s')
    expect(startsMs.length).toBe(400)
    await Promise.all(work)
    expect(mostWithin(startsMs, 1000)).toBeLessThanOrEqual(20)
    // 400 starts take 20 windows of 1.02 s. The first answers are late, and the turns of the line cost some.
    expect(Math.max(...startsMs) - Math.min(...startsMs)).toBeLessThan(25_000)
  })

  it('too late for a caller without patience: it gets its start, and the first units are back', async () => {
    const quota = limit('quota', { window: 'sliding', max: 10, per: '1h' })
    const { clock, limiter } = far([quota], () => 100)
    const call = limiter.acquire([quota], { wait: false })
    await clock.advance('1s')
    await call
    expect((await limiter.inspect(quota)).available).toBe(9)
  })

  it('after the end of their fixed window are asked again', async () => {
    const api = limit('api', { window: 'fixed', max: 5, per: '1s' })
    const { clock, limiter } = far([api], (n) => (n % 2 === 0 ? 240 : 2))
    await clock.advance('900ms')
    const startsMs: number[] = []
    const work = Array.from({ length: 20 }, () => limiter.run([api], () => startsMs.push(clock.now())))
    await clock.advance('10s')
    await Promise.all(work)
    const windows = Map.groupBy(startsMs, (ms) => Math.floor(ms / 1000))
    expect(Math.max(...[...windows.values()].map((starts) => starts.length))).toBe(5)
  })

  it('late leave a start alone that went on without its budget, and one of a limit without time', async () => {
    const slots = limit('slots', { concurrency: 2 })
    const { clock, limiter, backend } = far([slots], () => 200)
    const call = limiter.acquire([slots])
    await clock.advance('1s')
    await (await call).release()
    expect(backend.questions).toBe(1)
  })

  it('late reject no caller while the units are on their way back', async () => {
    const one = limit('one', { window: 'sliding', max: 1, per: '10s' })
    const { clock, limiter } = far([one], (n) => (n === 0 ? 200 : 2))
    const calls = [limiter.acquire([one], { wait: false }), limiter.acquire([one], { wait: '1s' })]
    const told = Promise.allSettled(calls)
    await clock.advance('2s')
    expect((await told).map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    expect((await limiter.inspect(one)).available).toBe(0)
  })

  it('always too late for their window reject those without time left', async () => {
    const api = limit('api', { window: 'fixed', max: 5, per: '100ms' })
    const { clock, limiter } = far([api], () => 160)
    const told = Promise.allSettled([limiter.acquire([api], { wait: false }), limiter.acquire([api], { wait: '1s' })])
    await clock.advance('5s')
    const codes = (await told).map((each) => each.status === 'rejected' && (each.reason as { code: string }).code)
    expect(codes).toEqual(['limit.rejected', 'limit.rejected'])
  })

  it('once late, as the first over a new connection, put off no later caller', async () => {
    const api = limit('api', { window: 'sliding', max: 50, per: '1s' })
    const { clock, limiter } = far([api], (n) => (n === 0 ? 200 : 1))
    const tookMs: number[] = []
    const calls = (async () => {
      for (let n = 0; n < 12; n++) {
        const fromMs = clock.now()
        await limiter.acquire([api], { wait: false })
        tookMs.push(clock.now() - fromMs)
      }
    })()
    await clock.advance('5s')
    await calls
    expect(Math.max(...tookMs.slice(3))).toBeLessThan(20)
  })

  it('into the guard of a fixed window are asked again', async () => {
    const api = limit('api', { window: 'fixed', max: 5, per: '1s', guard: '100ms' })
    const { clock, limiter } = far([api], (n) => (n === 0 ? 180 : 2))
    const edgeMs = 1000 - (clock.now() % 1000)
    await clock.advance(`${edgeMs + 750}ms`)
    const call = limiter.run([api], () => clock.now() % 1000)
    await clock.advance('2s')
    expect(await call).toBeLessThan(900)
  })
})

it('a backend that was away and now answers slowly is used again', async () => {
  let wayMs = 10
  const api = limit('api', { rate: 10, per: '1s', burst: 10 })
  const { clock, limiter } = far([api], () => wayMs)
  const told: string[] = []
  limiter.on('rate_limit.backend_down', () => void told.push('down'))
  limiter.on('rate_limit.backend_up', () => void told.push('up'))
  const first = limiter.acquire([api])
  await clock.advance('100ms')
  await first
  wayMs = 5_000
  const second = limiter.acquire([api])
  await clock.advance('6s')
  expect(told).toEqual(['down'])
  wayMs = 400
  await clock.advance('3s')
  await second
  expect(told).toEqual(['down', 'up'])
  // It is not called away again while it answers as slowly.
  const rest = Promise.all(Array.from({ length: 20 }, () => limiter.acquire([api])))
  await clock.advance('5s')
  await rest
  expect(told).toEqual(['down', 'up'])
})
