// The budget of a backend holds at the handlers, however long its answers take: by a manual clock.
import { describe, expect, it } from 'vitest'
import { input, limit, task } from '../../src/exports/index.ts'
import type { ManualClock } from '../../src/exports/testing.ts'
import type { UnitAnswer, UnitRequest } from '../../src/limiter/contract/limiter.ts'
import { MemoryBackend } from '../../src/limiter/memory/memory.ts'
import { createEngineHarness, type EngineHarness } from './engine-harness.ts'

/** A backend whose questions and answers take their time on the way. */
class FarBackend extends MemoryBackend {
  readonly #clock: ManualClock
  readonly #waysMs: () => readonly [number, number]

  /** @param waysMs the ways of the next question and of its answer */
  constructor(clock: ManualClock, waysMs: () => readonly [number, number]) {
    super(clock)
    this.#clock = clock
    this.#waysMs = waysMs
  }

  override async acquire(requests: readonly UnitRequest[]): Promise<readonly UnitAnswer[]> {
    const [thereMs, backMs] = this.#waysMs()
    await this.#clock.sleep(thereMs)
    const answers = await super.acquire(requests)
    await this.#clock.sleep(backMs)
    return answers.map((answer) =>
      answer.kind === 'granted' ? { ...answer, startInUs: (answer.startInUs ?? 0) - backMs * 1000 } : answer,
    )
  }
}

const POLICIES = [
  { window: 'sliding', max: 100, per: '1s' },
  { window: 'fixed', max: 100, per: '1s' },
  { rate: 100, per: '1s', burst: 1 },
] as const

/** The starts of 3,000 waiting jobs in so many seconds, in ms. */
async function startsOf(
  w: EngineHarness,
  policy: (typeof POLICIES)[number],
  backend: MemoryBackend,
  seconds: number,
): Promise<number[]> {
  const starts: number[] = []
  const api = limit('api', { ...policy, backend: 'shared' })
  const call = task('call', input<null>(), {
    limits: [api],
    run: () => void starts.push(w.clock.monotonicUs() / 1000),
  })
  const engine = await w.start({
    tasks: [call],
    budgets: { shared: backend },
    queues: { default: { concurrency: 150 } },
  })
  for (let n = 0; n < 3; n++) await call.enqueueMany(Array.from({ length: 1000 }, () => null))
  await w.clock.advance(`${seconds}s`)
  await engine.stop({ within: 0 })
  return starts
}

/** The most starts within any time of so many ms. */
function worst(starts: readonly number[], spanMs: number): number {
  let from = 0
  let most = 0
  for (let to = 0; to < starts.length; to++) {
    while (starts[to]! - starts[from]! >= spanMs) from++
    most = Math.max(most, to - from + 1)
  }
  return most
}

/** Numbers from 0 to 1, always the same. */
function chance(seed: number): () => number {
  let state = seed
  return () => (state = (state * 16_807) % 2_147_483_647) / 2_147_483_647
}

describe('the handlers of a budget at a backend', () => {
  it('see no more than the budget when one answer takes longer than the next', async () => {
    const w = createEngineHarness()
    const waysMs = [200, 0, 0, 0, 150, 0]
    const starts = await startsOf(w, POLICIES[0], new FarBackend(w.clock, () => [0, waysMs.shift() ?? 0]), 6)
    expect(worst(starts, 1000)).toBe(100)
    expect(starts.length).toBeGreaterThan(400)
  })

  describe.each([
    { ways: 'of up to 4 ms', mostMs: 4, used: 0.85 },
    { ways: 'of 30 to 40 ms', leastMs: 30, mostMs: 40, used: 0.8 },
    { ways: 'of up to 200 ms', mostMs: 200, used: 0.6 },
  ])('with ways $ways', ({ leastMs = 0, mostMs, used }) => {
    it.each(POLICIES)('see no more than the budget, and most of it: %j', async (policy) => {
      const w = createEngineHarness()
      const random = chance(7)
      const way = (): number => Math.floor(leastMs + random() * (mostMs - leastMs))
      const starts = await startsOf(w, policy, new FarBackend(w.clock, () => [way(), way()]), 8)
      expect(starts.length).toBeGreaterThan(8 * 100 * used)
      // A fixed window counts each second by itself; a rate of one unit admits one at both ends of a second.
      if ('rate' in policy) expect(worst(starts, 1000)).toBeLessThanOrEqual(101)
      else if (policy.window === 'sliding') expect(worst(starts, 1000)).toBeLessThanOrEqual(100)
      else
        for (const second of Map.groupBy(starts, (ms) => Math.floor(ms / 1000)).values())
          expect(second.length).toBeLessThanOrEqual(100)
    })
  })
})
