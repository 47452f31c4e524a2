// Processes that wait for one budget at a backend get about equal parts of it: by a manual clock.
import { describe, expect, it, onTestFinished } from 'vitest'
import { input, limit, task } from '../../src/exports/index.ts'
import { createLimiter } from '../../src/exports/limiter.ts'
import type { ManualClock } from '../../src/exports/testing.ts'
import type { UnitAnswer, UnitRequest } from '../../src/limiter/contract/limiter.ts'
import { ValueBackend, type ValueStore } from '../../src/limiter/values/backend.ts'
import { patientClock } from '../limiter/patient-clock.ts'
import { createEngineHarness, type EngineHarness } from './engine-harness.ts'

/** Values that several processes share. */
function sharedValues(clock: ManualClock): ValueStore {
  const values = new Map<string, string>()
  return {
    update: async (keys, decide) => {
      const given = keys.map((key) => values.get(key) ?? null)
      const written = decide(given, Math.round(clock.monotonicUs()) + 1_000_000_000)
      for (const [i, key] of keys.entries()) {
        const value = written[i]
        if (value?.text === null) values.delete(key)
        else if (value) values.set(key, value.text)
      }
    },
  }
}

/** The same values, as a process with so long a way to them sees them. */
class FarValues extends ValueBackend {
  // An engine's manual clock does not move while a server is asked.
  override readonly isLocal: boolean
  readonly #clock: ManualClock
  readonly #wayMs: number
  onTheWay = 0

  constructor(values: ValueStore, clock: ManualClock, kind: Kind, wayMs: number) {
    super(values)
    this.#clock = clock
    this.isLocal = kind === 'jobs'
    this.#wayMs = wayMs
  }

  override async acquire(requests: readonly UnitRequest[]): Promise<readonly UnitAnswer[]> {
    this.onTheWay++
    await this.#clock.sleep(this.#wayMs)
    const answers = await super.acquire(requests)
    await this.#clock.sleep(this.#wayMs)
    this.onTheWay--
    return answers.map((answer) => {
      if (answer.kind !== 'granted') return answer
      return { ...answer, startInUs: (answer.startInUs ?? 0) - this.#wayMs * 1000 }
    })
  }
}

const POLICIES = [
  { window: 'sliding', max: 100, per: '1s' },
  { window: 'fixed', max: 100, per: '1s' },
  { rate: 100, per: '1s', burst: 1 },
  { rate: 100, per: '1s', burst: 50 },
] as const
const SECONDS = 8
/** After this time each process has met the others. */
const MET_MS = 2000

type Begin = () => void
type Kind = 'jobs' | 'calls'

function limitOf(policy: (typeof POLICIES)[number]) {
  return limit('api', { ...policy, backend: 'shared' })
}

/** A process that always has work: jobs of its own store, or calls. */
async function work(w: EngineHarness, kind: Kind, api: ReturnType<typeof limitOf>, backend: FarValues, begin: Begin) {
  if (kind === 'calls') {
    const limiter = createLimiter({ backend, limits: [api], clock: patientClock(w.clock, () => backend.onTheWay) })
    onTestFinished(() => limiter.close())
    const call = async (): Promise<void> => {
      for (;;) {
        await limiter.acquire([api])
        begin()
      }
    }
    for (let n = 0; n < 100; n++) call().catch(() => undefined)
    return
  }
  const call = task('call', input<null>(), { limits: [api], run: begin })
  await w.start({ tasks: [call], budgets: { shared: backend }, queues: { default: { concurrency: 150 } } })
  for (let n = 0; n < 2; n++) await call.enqueueMany(Array.from({ length: 500 }, () => null))
}

/** The starts of each process, in ms. */
async function startsOf(policy: (typeof POLICIES)[number], processes: readonly (readonly [Kind, number])[]) {
  const w = createEngineHarness()
  const values = sharedValues(w.clock)
  const api = limitOf(policy)
  const starts: number[][] = []
  const nowMs = (): number => w.clock.monotonicUs() / 1000
  for (const [kind, wayMs] of processes) {
    const own: number[] = []
    starts.push(own)
    await work(w, kind, api, new FarValues(values, w.clock, kind, wayMs), () => own.push(nowMs()))
  }
  await w.clock.advance(`${SECONDS}s`)
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

/** The most starts that the policy lets into any second. */
function bound(policy: (typeof POLICIES)[number]): number {
  if ('rate' in policy) return policy.rate + policy.burst
  // Two windows that follow each other meet in a second.
  return policy.window === 'fixed' ? 2 * policy.max : policy.max
}

describe.each([
  {
    who: 'three callers',
    processes: [
      ['calls', 0],
      ['calls', 1],
      ['calls', 4],
    ] as const,
    used: 0.98,
    apart: 1.5,
  },
  {
    who: 'three stores',
    processes: [
      ['jobs', 0],
      ['jobs', 1],
      ['jobs', 4],
    ] as const,
    used: 0.97,
    apart: 2,
  },
  {
    who: 'two stores and a caller',
    processes: [
      ['jobs', 1],
      ['jobs', 0],
      ['calls', 4],
    ] as const,
    used: 0.97,
    apart: 2,
  },
  // At times its payments come too late for a start.
  {
    who: 'a store 60 ms away and callers',
    processes: [
      ['jobs', 60],
      ['calls', 0],
      ['calls', 1],
    ] as const,
    used: 0.85,
    apart: 2.5,
  },
])('$who that want one budget', ({ processes, used, apart }) => {
  it.each(POLICIES)('get about equal parts, and nearly all of it: %j', async (policy) => {
    const starts = await startsOf(policy, processes)
    const all = starts.flat().toSorted((a, b) => a - b)
    const parts = starts.map((each) => each.filter((ms) => ms >= MET_MS).length)
    expect(Math.max(...parts)).toBeLessThanOrEqual(apart * Math.min(...parts))
    expect(all.length).toBeGreaterThanOrEqual(used * SECONDS * 100)
    expect(worst(all, 1000)).toBeLessThanOrEqual(bound(policy))
  })
})
