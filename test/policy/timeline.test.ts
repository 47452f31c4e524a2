import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { adopt, type BucketState, charge, deniedUntil, newBucket, view } from '../../src/policy/limits/bucket.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import type { Rule } from '../../src/policy/rules/rule.ts'
import type { OverrideEvent, PolicyChange } from '../../src/policy/limits/override.ts'
import { Timeline } from '../../src/policy/limits/timeline.ts'
import { EPOCH_US, policyOf, rate, SECOND, type Start } from './histories.ts'

const KEY = 'k'

/** One step of a history: time passes, then the limit changes, or as many starts as may be are made. */
type Step =
  | {
      readonly kind: 'override' | 'pause'
      readonly gapUs: number
      readonly own: boolean
      readonly change: PolicyChange | null
      readonly lastsUs: number | null
    }
  | { readonly kind: 'starts'; readonly gapUs: number; readonly most: number; readonly weight: number }

interface Played {
  readonly starts: readonly Start[]
  /** Every policy that was in force at some time. */
  readonly policies: readonly LimitPolicy[]
  /** Starts as granted under a state that was carried over at each change, and under one that was carried when it was needed. */
  readonly agree: boolean
}

/** Plays a history on a bucket that is carried over only when it is looked at, and beside it on one that is adopted at each change. */
function play(policy: LimitPolicy, steps: readonly Step[]): Played {
  let nowUs = EPOCH_US
  let timeline = new Timeline([{ kind: 'definition', revision: 1, sinceUs: nowUs, policy, version: 0 }])
  let lazy: { state: BucketState; revision: number } = { state: newBucket(policy, nowUs), revision: 1 }
  let eager = newBucket(policy, nowUs)
  let inForce: LimitPolicy = policy
  const starts: Start[] = []
  const policies = [policy]
  let agree = true
  const add = (event: Omit<OverrideEvent, 'revision'>): void => {
    timeline = timeline.with({ ...event, revision: timeline.revision + 1 })
    const next = timeline.at(KEY).policy as LimitPolicy
    eager = adopt(inForce, next, eager, Math.max(event.sinceUs, eager.atUs))
    policies.push((inForce = next))
  }
  for (const step of steps) {
    nowUs += step.gapUs
    for (const end of timeline.overdue(nowUs)) add(end)
    if (step.kind !== 'starts') {
      const { kind, own, change, lastsUs } = step
      const untilUs = lastsUs === null || change === null ? null : nowUs + lastsUs
      add({ kind, key: own ? KEY : null, change, sinceUs: nowUs, untilUs, by: null, reason: null })
      continue
    }
    const state = timeline.carry(KEY, lazy.state, lazy.revision, nowUs) as BucketState
    lazy = { state, revision: timeline.revision }
    for (let i = 0; i < step.most; i++) {
      const denied = deniedUntil(inForce, state, 0, nowUs, step.weight)
      agree &&= denied === deniedUntil(inForce, eager, 0, nowUs, step.weight)
      if (denied !== null) break
      charge(inForce, state, nowUs, step.weight)
      charge(inForce, eager, nowUs, step.weight)
      starts.push({ atUs: nowUs, weight: step.weight })
    }
  }
  return { starts, policies, agree }
}

const gapUs = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 30 }), fc.integer({ min: 0, max: 3000 }))
const lastsUs = fc.option(fc.integer({ min: 1, max: 4000 }))
const units = fc.integer({ min: 1, max: 9 })
/** In ms, so that the periods are of the size of the gaps. */
const length = fc.integer({ min: 1, max: 900 }).map((us) => us / 1000)

function history(change: fc.Arbitrary<PolicyChange>): fc.Arbitrary<Step[]> {
  const own = fc.boolean()
  return fc.array(
    fc.oneof(
      {
        weight: 2,
        arbitrary: fc.record({
          kind: fc.constant('override' as const),
          gapUs,
          own,
          change: fc.option(change),
          lastsUs,
        }),
      },
      {
        weight: 1,
        arbitrary: fc.record({
          kind: fc.constant('pause' as const),
          gapUs,
          own,
          change: fc.option(fc.constant({ concurrency: 0 })),
          lastsUs,
        }),
      },
      {
        weight: 6,
        arbitrary: fc.record({
          kind: fc.constant('starts' as const),
          gapUs,
          most: fc.integer({ min: 1, max: 20 }),
          // Above the least burst a start would go into debt, which is a bound of its own.
          weight: fc.constant(1),
        }),
      },
    ),
    { maxLength: 50 },
  )
}

const rateChange = fc.record({ rate: units, per: length, burst: units }, { requiredKeys: [] }).filter(isSome)
const windowChange = fc.record({ max: units, per: length }, { requiredKeys: [] }).filter(isSome)
const maxChange = fc.record({ max: units })
const everyChange = fc.record({ every: length })

function isSome(change: object): boolean {
  return Object.keys(change).length > 0
}

/** Checks every interval that begins and ends with a start. */
function expectEachInterval(
  { starts }: Played,
  excess: (units: number, lengthUs: number, count: number, fromUs: number, toUs: number) => boolean,
): void {
  for (let i = 0; i < starts.length; i++) {
    let taken = 0
    for (let j = i; j < starts.length; j++) {
      const [from, to] = [starts[i]!.atUs, starts[j]!.atUs]
      taken += starts[j]!.weight
      if (excess(taken, to - from, j - i + 1, from, to))
        expect.fail(`${taken} units in [${from - EPOCH_US}, ${to - EPOCH_US}]`)
    }
  }
}

function rulesOf<K extends Rule['kind']>({ policies }: Played, kind: K): Extract<Rule, { kind: K }>[] {
  return policies.flatMap(({ rule }) => (rule?.kind === kind ? [rule as Extract<Rule, { kind: K }>] : []))
}

describe('no sequence of overrides, pauses and their ends', () => {
  test('lets an interval exceed the greatest rate and the greatest burst that were in force', () => {
    const steps = history(rateChange)
    fc.assert(
      fc.property(units, units, length, steps, (allowed, burst, per, each) => {
        const played = play(policyOf(rate(allowed, per * 1000, burst)), each)
        const rules = rulesOf(played, 'rate')
        const fastest = Math.max(...rules.map((rule) => rule.rate / rule.periodUs))
        const most = Math.max(...rules.map((rule) => rule.burst))
        expectEachInterval(played, (taken, lengthUs) => taken > most + (lengthUs + 1) * fastest + 1e-6)
      }),
      { numRuns: 1500 },
    )
  })

  test('refills a rate: over a whole history no more starts than the first level and what each policy refilled in its time', () => {
    fc.assert(
      fc.property(units, length, history(rateChange), (allowed, per, each) => {
        const first = policyOf(rate(allowed, per * 1000))
        let refilled = allowed
        let atUs = EPOCH_US
        let nowUs = EPOCH_US
        // The refill by the policies alone, without the cap of any burst: the bound from the beginning on.
        let timeline = new Timeline([{ kind: 'definition', revision: 1, sinceUs: nowUs, policy: first, version: 0 }])
        const pass = (untilUs: number): void => {
          const rule = timeline.at(KEY).policy?.rule
          if (rule?.kind === 'rate') refilled += ((untilUs - atUs) * rule.rate) / rule.periodUs
          atUs = untilUs
        }
        const played = play(first, each)
        let granted = 0
        let seen = 0
        for (const step of each) {
          nowUs += step.gapUs
          for (const end of timeline.overdue(nowUs)) {
            pass(Math.max(atUs, end.sinceUs))
            timeline = timeline.with({ ...end, revision: timeline.revision + 1 })
          }
          pass(nowUs)
          if (step.kind !== 'starts') {
            const untilUs = step.lastsUs === null || step.change === null ? null : nowUs + step.lastsUs
            const { kind, change } = step
            const key = step.own ? KEY : null
            const event = { kind, key, change, sinceUs: nowUs, untilUs, by: null, reason: null }
            timeline = timeline.with({ ...event, revision: timeline.revision + 1 })
            continue
          }
          while (seen < played.starts.length && played.starts[seen]!.atUs <= nowUs)
            granted += played.starts[seen++]!.weight
          expect(granted).toBeLessThanOrEqual(refilled + 1e-6)
        }
      }),
      { numRuns: 1000 },
    )
  })

  test('lets a sliding window hold more than the greatest bound that was in force', () => {
    fc.assert(
      fc.property(units, length, history(maxChange), (max, per, each) => {
        const periodUs = per * 1000
        const played = play(policyOf({ kind: 'sliding', max, periodUs }), each)
        const most = Math.max(...rulesOf(played, 'sliding').map((rule) => rule.max))
        expectEachInterval(played, (taken, lengthUs) => lengthUs < periodUs && taken > most)
      }),
      { numRuns: 1000 },
    )
  })

  test('lets any interval of the shortest window in force hold more than the greatest bound', () => {
    fc.assert(
      fc.property(units, length, history(windowChange), (max, per, each) => {
        const played = play(policyOf({ kind: 'sliding', max, periodUs: per * 1000 }), each)
        const rules = rulesOf(played, 'sliding')
        const most = Math.max(...rules.map((rule) => rule.max))
        const shortest = Math.min(...rules.map((rule) => rule.periodUs))
        expectEachInterval(played, (taken, lengthUs) => lengthUs < shortest && taken > most)
      }),
      { numRuns: 1000 },
    )
  })

  test('lets an aligned window hold more than the greatest bound that was in force', () => {
    fc.assert(
      fc.property(units, length, history(maxChange), (max, per, each) => {
        const periodUs = per * 1000
        const window = { align: 'epoch' as const, periodUs }
        const played = play(policyOf({ kind: 'fixed', max, window, guardUs: 0 }), each)
        const most = Math.max(...rulesOf(played, 'fixed').map((rule) => rule.max))
        const indexOf = (us: number): number => Math.floor(us / periodUs)
        expectEachInterval(played, (taken, _, __, from, to) => indexOf(from) === indexOf(to) && taken > most)
      }),
      { numRuns: 1000 },
    )
  })

  test('brings two starts closer together than the shortest interval that was in force', () => {
    fc.assert(
      fc.property(length, history(everyChange), (every, each) => {
        const played = play(policyOf({ kind: 'spacing', everyUs: every * 1000 }), each)
        const shortest = Math.min(...rulesOf(played, 'spacing').map((rule) => rule.everyUs))
        expectEachInterval(played, (_, lengthUs, count) => count > 1 && lengthUs < (count - 1) * shortest)
      }),
      { numRuns: 1000 },
    )
  })

  test.each([
    ['rate', fc.tuple(units, length).map(([n, per]) => rate(n, per * 1000)), history(rateChange)],
    [
      'sliding',
      fc.tuple(units, length).map(([max, per]): Rule => ({ kind: 'sliding', max, periodUs: per * 1000 })),
      history(windowChange),
    ],
    [
      'fixed',
      fc.tuple(units, length).map(([max, per]): Rule => ({
        kind: 'fixed',
        max,
        window: { align: 'epoch', periodUs: per * 1000 },
        guardUs: 0,
      })),
      history(windowChange),
    ],
    ['spacing', length.map((every): Rule => ({ kind: 'spacing', everyUs: every * 1000 })), history(everyChange)],
  ] as const)(
    'is seen differently by a %s bucket that was carried over late than by one that was carried at once',
    (_, rule, steps) => {
      fc.assert(
        fc.property(rule, steps, (each, history) => {
          expect(play(policyOf(each), history).agree).toBe(true)
        }),
        { numRuns: 1000 },
      )
    },
  )

  test('lets anything start while the limit or the key is paused', () => {
    fc.assert(
      fc.property(history(rateChange), (steps) => {
        const paused = { limit: false, key: false }
        const bounded = steps.map((step) => (step.kind === 'starts' ? step : { ...step, lastsUs: null }))
        const played = play(policyOf(rate(5, 500)), bounded)
        let nowUs = EPOCH_US
        const open = new Set<number>()
        for (const step of bounded) {
          nowUs += step.gapUs
          if (step.kind === 'pause') paused[step.own ? 'key' : 'limit'] = step.change !== null
          if (step.kind === 'starts' && !paused.limit && !paused.key) open.add(nowUs)
        }
        for (const start of played.starts) expect(open.has(start.atUs)).toBe(true)
      }),
      { numRuns: 500 },
    )
  })
})

describe('a timeline', () => {
  const policy = policyOf(rate(10, 10 * SECOND))
  const defined = new Timeline([{ kind: 'definition', revision: 1, sinceUs: EPOCH_US, policy, version: 0 }])
  const event = (more: Partial<OverrideEvent>): OverrideEvent => ({
    kind: 'override',
    revision: 2,
    sinceUs: EPOCH_US,
    key: null,
    change: { burst: 4 },
    untilUs: null,
    by: null,
    reason: null,
    ...more,
  })

  test('of an undefined limit admits nothing and changes no state', () => {
    const none = new Timeline([])
    expect(none.at(KEY)).toEqual({ policy: null, unpaused: null, revision: 0 })
    expect(none.carry(KEY, null, 0, EPOCH_US)).toBeNull()
    expect([none.definition, none.revision, none.nextEndUs]).toEqual([null, 0, Infinity])
  })

  test('is not changed by what is added to it', () => {
    const more = defined.with(event({}))
    expect(defined.at(KEY).policy).toEqual(policy)
    expect(more.at(KEY).policy?.rule).toMatchObject({ burst: 4 })
    expect(more.revision).toBe(2)
  })

  test('says when the next of what is in force ends, and what is over by then, in the order of the ends', () => {
    const timeline = defined
      .with(event({ untilUs: EPOCH_US + 30 }))
      .with(event({ revision: 3, key: 'a', untilUs: EPOCH_US + 20 }))
      .with(event({ revision: 4, key: 'b' }))
      .with(event({ revision: 5, kind: 'pause', change: { concurrency: 0 }, untilUs: EPOCH_US + 10 }))
    expect(timeline.nextEndUs).toBe(EPOCH_US + 10)
    expect(timeline.overdue(EPOCH_US + 9)).toEqual([])
    expect(timeline.overdue(EPOCH_US + 25).map(({ kind, key, sinceUs }) => [kind, key, sinceUs - EPOCH_US])).toEqual([
      ['pause', null, 10],
      ['override', 'a', 20],
    ])
  })

  test('carries a bucket that was written before the limit was defined', () => {
    const state: BucketState = { atUs: EPOCH_US - 5, closedUntilUs: 0, rule: null }
    const carried = defined.carry(KEY, state, 0, EPOCH_US) as BucketState
    expect(view(policy, carried, 0, EPOCH_US)).toMatchObject({ available: 10 })
  })
})

test('what comes after the end of an override of a key holds the changes of that key alone', () => {
  const policy = policyOf(rate(1, SECOND))
  let timeline = new Timeline([{ kind: 'definition', revision: 1, sinceUs: EPOCH_US, policy, version: 0 }])
  const rest = { kind: 'override', sinceUs: EPOCH_US, by: null, reason: null } as const
  for (const [i, key] of ['a', 'b', null].entries())
    timeline = timeline.with({ ...rest, key, change: { rate: 9 }, untilUs: EPOCH_US + 1 + i, revision: 2 + i })
  const ended = timeline.ended('b', EPOCH_US + 2)
  expect([ended.keys(), ended.at('b').endsUs]).toEqual([[null, 'b'], EPOCH_US + 3])
  expect(timeline.ended('b', EPOCH_US + 2)).toBe(ended)
  expect(ended.ended('b', EPOCH_US + 3).at('b')).toMatchObject({ policy })
})

test('the end of a key is the first one from which on other rules hold', () => {
  const policy = policyOf(rate(1, SECOND))
  const change = fc.constantFrom<PolicyChange>({ rate: 1 }, { rate: 2 }, { mode: 'shadow' }, { concurrency: 3 })
  const override = fc.record({
    kind: fc.constantFrom('override' as const, 'pause' as const),
    key: fc.constantFrom(null, KEY),
    change: fc.option(change, { freq: 5 }),
    untilUs: fc.option(fc.integer({ min: EPOCH_US + 1, max: EPOCH_US + 4 }), { freq: 5 }),
  })
  fc.assert(
    fc.property(fc.array(override, { maxLength: 8 }), fc.constantFrom(KEY, 'other'), (overrides, key) => {
      let timeline = new Timeline([{ kind: 'definition', revision: 1, sinceUs: EPOCH_US, policy, version: 0 }])
      for (const each of overrides)
        timeline = timeline.with({
          ...each,
          ...(each.kind === 'pause' && each.change && { change: { concurrency: 0 } }),
          untilUs: each.change && each.untilUs,
          sinceUs: EPOCH_US,
          revision: timeline.revision + 1,
          by: null,
          reason: null,
        })
      const now = timeline.at(key)
      let firstUs: number | undefined
      for (let atUs = EPOCH_US + 4; atUs > EPOCH_US; atUs--) {
        let then = timeline
        for (const end of timeline.ends(atUs)) then = then.with(end)
        if (JSON.stringify(then.at(key).policy) !== JSON.stringify(now.policy)) firstUs = atUs
      }
      expect(now.endsUs).toBe(firstUs)
    }),
    { numRuns: 2000 },
  )
})
