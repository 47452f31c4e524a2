// The script on Redis repeats the mathematics of src/policy. Both answer the same random histories, to the microsecond.
import { afterAll, describe, expect, it } from 'vitest'
import { type Clock, systemClock, type Timer } from '../../src/base/clock.ts'
import { SluiceError } from '../../src/base/errors.ts'
import type { LimitBackend, UnitRequest } from '../../src/limiter/contract/limiter.ts'
import { MemoryBackend } from '../../src/limiter/memory/memory.ts'
import { RedisBackend } from '../../src/limiter/redis/backend.ts'
import { RESERVATION_LAPSES_US } from '../../src/policy/limits/booked.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import { paceOf } from '../../src/policy/limits/pace.ts'
import type { Rule } from '../../src/policy/rules/rule.ts'
import { MAX_DURATION_US } from '../../src/base/duration.ts'
import { capacity, EPOCH_US, fixedRules, policyOf, rateRules, slidingRules, spacingRules } from '../policy/histories.ts'
import * as fc from '../properties.ts'
import { sized } from '../sized.ts'
import { clear, connect, namespace, REDIS } from './redis-server.ts'

const client = REDIS === null ? null : await connect()

/** A clock that is set. */
class SetClock implements Clock {
  nowUs = EPOCH_US
  readonly bootId = 'set'
  setTimer(run: () => void, delayMs: number): Timer {
    return systemClock.setTimer(run, delayMs)
  }
  now(): number {
    return this.nowUs / 1000
  }
  monotonicUs(): number {
    return this.nowUs - EPOCH_US
  }
}

type Ahead = Pick<UnitRequest, 'aheadUs' | 'withinUs'>

type Op =
  | ({ readonly kind: 'ask'; readonly weights: readonly number[]; readonly priority: number } & Ahead)
  | { readonly kind: 'charge'; readonly units: number }
  | { readonly kind: 'penalize'; readonly forUs: number }
  | { readonly kind: 'calibrate'; readonly remaining: number; readonly resetInUs: number }
  | { readonly kind: 'reserve'; readonly weight: number; readonly atMostUs: number }
  | { readonly kind: 'cancel' }
  | { readonly kind: 'untilNext' }

interface Step {
  readonly gapUs: number
  readonly op: Op
}

const weights = fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 30 }))
const span = fc.oneof(fc.integer({ min: 0, max: 500 }), fc.integer({ min: 0, max: 20_000_000 }))
const ahead = fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, fc.integer({ min: 1, max: 250_000 }))
const ask: fc.Arbitrary<Op> = fc.record({
  kind: fc.constant('ask' as const),
  weights: fc.array(weights, { minLength: 1, maxLength: 5 }),
  priority: fc.constantFrom(0, 10),
  aheadUs: ahead,
  withinUs: ahead,
})
const op: fc.Arbitrary<Op> = fc.oneof(
  { weight: 12, arbitrary: ask },
  { weight: 4, arbitrary: fc.constant({ kind: 'untilNext' as const }) },
  fc.record({ kind: fc.constant('charge' as const), units: fc.integer({ min: -20, max: 40 }) }),
  fc.record({ kind: fc.constant('penalize' as const), forUs: span }),
  fc.record({ kind: fc.constant('calibrate' as const), remaining: fc.integer({ min: 0, max: 10 }), resetInUs: span }),
  fc.record({ kind: fc.constant('reserve' as const), weight: weights, atMostUs: span }),
  fc.constant({ kind: 'cancel' as const }),
)
const gap = fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 3 }), span)

/** Random histories. @param pauses how much longer the pauses between its steps are: some are to outlast windows */
function histories(pauses: number): fc.Arbitrary<Step[]> {
  const step = fc.record({ gapUs: gap.map((us) => us * pauses), op })
  return fc.array(step, { minLength: 3, maxLength: 14 })
}

const bigRates: fc.Arbitrary<Rule> = fc
  .record({
    kind: fc.constant('rate' as const),
    rate: fc.integer({ min: 1, max: 1_000_000_000 }),
    periodUs: fc.integer({ min: 1_000_000, max: 100_000_000_000_000 }),
    burst: fc.integer({ min: 1, max: 1_000_000_000 }),
    startEmpty: fc.boolean(),
  })
  // As a policy must: a burst refills within 100 years.
  .filter(({ rate, periodUs, burst }) => (burst / rate) * periodUs < MAX_DURATION_US)
/** Windows of the calendar, which last 23 to 25 hours around a change of the clock. They end while a history runs. */
const calendarRules: fc.Arbitrary<Rule> = fc
  .record({
    max: fc.integer({ min: 1, max: 12 }),
    unit: fc.constantFrom('hour', 'day', 'week', 'month'),
    timezone: fc.constantFrom('UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe'),
    guardUs: fc.constantFrom(0, 1, 2_000_000),
  })
  .map(({ max, unit, timezone, guardUs }) => ({
    kind: 'fixed' as const,
    max,
    window: { align: 'calendar' as const, unit, timezone },
    guardUs,
  }))
const KINDS: Readonly<Record<string, fc.Arbitrary<Rule | null>>> = {
  rate: fc.oneof({ weight: 3, arbitrary: rateRules }, bigRates),
  sliding: slidingRules,
  fixed: fixedRules,
  calendar: calendarRules,
  spacing: spacingRules,
  permits: fc.constant(null),
}

function policies(kind: string): fc.Arbitrary<LimitPolicy> {
  const rule = KINDS[kind] ?? fc.constant(null)
  const more = fc.record({
    every: fc.option(fc.integer({ min: 1, max: 3_000_000 }), { freq: 3 }),
    concurrency: kind === 'permits' ? fc.integer({ min: 1, max: 4 }) : fc.option(fc.constant(6), { freq: 3 }),
    head: fc.option(fc.constant({ units: 1, priority: 10 }), { freq: 3 }),
  })
  return fc.tuple(rule, more).map(([found, { every, concurrency, head }]) => {
    const spaced = every !== null && (found?.kind === 'rate' || found?.kind === 'sliding' || found?.kind === 'fixed')
    const heads = head !== null && found !== null && found.kind !== 'spacing' && capacity(found) > 1
    return policyOf(found, {
      concurrency,
      ...(spaced && { spacing: { kind: 'spacing', everyUs: every } }),
      ...(heads && { headroom: head }),
    })
  })
}

/** Plays a history on one backend; answers what it said. */
async function play(
  backend: LimitBackend,
  clock: SetClock,
  policy: LimitPolicy,
  steps: readonly Step[],
): Promise<unknown[]> {
  clock.nowUs = EPOCH_US
  await backend.define([{ name: 'l', policy, version: 0 }])
  const name = { limit: 'l', key: 'k' }
  const said: unknown[] = []
  let permits = 0
  let lastUs = EPOCH_US
  let waitUs = 0
  let reserved = ''
  let lapsesUs = 0
  const mostUs = Math.floor(paceOf(policy).periodUs / 2)
  const request = (weight: number, priority = 0, more: Ahead = {}): UnitRequest => {
    permits++
    const uses = [{ ...name, weight: Math.min(weight, mostOf(policy)) }]
    const [aheadUs, withinUs] = [more.aheadUs ?? 0, more.withinUs ?? 0].map((us) => Math.min(us, mostUs))
    const permit = `p${permits}`
    return { uses, priority, line: permits, permit, leaseUs: 3_000_000, aheadUs: aheadUs!, withinUs: withinUs! }
  }
  const run = async (step: Op): Promise<unknown> => {
    if (step.kind === 'untilNext') clock.nowUs += waitUs
    if (step.kind === 'charge') return backend.charge(name, step.units, lastUs).catch(refusal)
    if (step.kind === 'penalize') return backend.penalize(name, step.forUs)
    // On Redis the server's own clock lets a reservation lapse.
    if (step.kind === 'cancel') return reserved !== '' && clock.nowUs < lapsesUs && backend.cancel(reserved)
    if (step.kind === 'calibrate') return backend.calibrate(name, { ...step, direction: 'both', reset: 'window' })
    if (step.kind === 'reserve') {
      const answer = await backend.reserve(request(step.weight), step.atMostUs)
      if (answer.kind === 'booked') {
        reserved = answer.id
        lapsesUs = clock.nowUs + answer.startAfterUs + RESERVATION_LAPSES_US
      }
      return answer
    }
    const asked = step.kind === 'ask' ? step.weights.map((each) => request(each, step.priority, step)) : [request(1)]
    const answers = await backend.acquire(asked)
    for (const answer of answers) {
      if (answer.kind === 'granted') lastUs = answer.atUs
      if (answer.kind === 'denied') waitUs = answer.retryAfterUs ?? 0
    }
    return answers
  }
  for (const step of steps) {
    clock.nowUs += step.gapUs
    said.push(await run(step.op))
  }
  const report = await backend.inspect(name)
  said.push({ ...report, policy: null })
  return said
}

/** A limit that counts no units refuses charges. */
function refusal(error: unknown): string {
  if (error instanceof SluiceError) return error.code
  throw error
}

function mostOf({ rule }: LimitPolicy): number {
  if (!rule || rule.kind === 'spacing') return 1
  return rule.kind === 'rate' ? rule.burst : rule.max
}

/** Histories that are played at the same time. */
const TOGETHER = 50

describe.skipIf(client === null)('the script on Redis', () => {
  afterAll(async () => {
    if (client) await clear(client, `test-${process.pid}-`)
    await client?.close()
  })

  it.each(Object.keys(KINDS))('answers as src/policy does: %s', async (kind) => {
    if (!client) return
    const pauses = kind === 'calendar' ? 100_000 : 1
    const all = fc.sample(fc.tuple(policies(kind), histories(pauses)), {
      numRuns: sized(400, 10_000),
      seed: 20_260_101,
    })
    for (let from = 0; from < all.length; from += TOGETHER)
      await Promise.all(
        all.slice(from, from + TOGETHER).map(async ([policy, steps]) => {
          const clock = new SetClock()
          const memory = await play(new MemoryBackend(clock), clock, policy, steps)
          const ns = namespace()
          const remote = new SetClock()
          const backend = new RedisBackend(client, {
            namespace: ns,
            nowUs: () => remote.nowUs,
            close: async () => undefined,
          })
          const redis = await play(backend, remote, policy, steps)
          const keys = ['policies', 'changes', 'b:l:k', 'p:l:k'].map((key) => `{sluice:${ns}}:${key}`)
          await client.sendCommand(['UNLINK', ...keys])
          expect({ policy, steps, said: redis }).toEqual({ policy, steps, said: memory })
        }),
      )
  })
  it('keeps a large sliding window as src/policy does, by sub-slots', async () => {
    if (!client) return
    const rule: Rule = { kind: 'sliding', max: 3000, periodUs: 10_000_000 }
    const asks = Array.from({ length: 1600 }, (_, i): Step => ({
      gapUs: i % 7 === 0 ? 40_000 : 1 + (i % 5),
      op: { kind: 'ask', weights: [1 + (i % 4)], priority: 0, aheadUs: i % 3 === 0 ? 30_000 : 0, withinUs: i % 5 },
    }))
    const [clock, remote] = [new SetClock(), new SetClock()]
    const ns = namespace()
    const backend = new RedisBackend(client, { namespace: ns, nowUs: () => remote.nowUs, close: async () => undefined })
    const memory = await play(new MemoryBackend(clock), clock, policyOf(rule), asks)
    const redis = await play(backend, remote, policyOf(rule), asks)
    await clear(client, ns)
    expect(redis).toEqual(memory)
  })
})
