// Booked starts that begin at any time and in any order: what really starts keeps the rule.
import { describe, expect, it } from 'vitest'
import { createLimiter, limit } from '../../src/exports/limiter.ts'
import type { PolicyChange } from '../../src/policy/limits/override.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'
import * as fc from '../properties.ts'

const PER_MS = 1000
/** Overrides last so long at most. */
const LONGEST_MS = 3000

/** Whether starts, in ms and sorted, keep a rule. */
type Keeps = (starts: readonly number[]) => boolean

const closest = (starts: readonly number[], of: number): number =>
  Math.min(...starts.slice(of).map((atMs, i) => atMs - (starts[i] ?? 0)))

const RULES: readonly (readonly [string, Policy, Keeps])[] = [
  ['a rate of one unit', { rate: 4, per: '1s', burst: 1 }, (starts) => closest(starts, 1) >= 250],
  [
    'a rate with a burst',
    { rate: 4, per: '1s', burst: 3 },
    (starts) =>
      starts.every((fromMs, i) => starts.slice(i).every((toMs, n) => n + 1 <= 3 + (toMs - fromMs) / 250 + 1e-6)),
  ],
  [
    'a sliding window',
    { window: 'sliding', max: 3, per: '1s', guard: '0ms' },
    (starts) => closest(starts, 3) >= PER_MS,
  ],
  ['a spacing', { every: '250ms' }, (starts) => closest(starts, 1) >= 250],
  [
    'a fixed window',
    { window: 'fixed', max: 3, per: '1s' },
    (starts) => {
      const counts = new Map<number, number>()
      for (const atMs of starts) counts.set(Math.floor(atMs / PER_MS), (counts.get(Math.floor(atMs / PER_MS)) ?? 0) + 1)
      return [...counts.values()].every((count) => count <= 3)
    },
  ],
]

/** One step of a history. */
type Step =
  | { readonly kind: 'book'; readonly weight: number; readonly both?: boolean }
  | { readonly kind: 'confirm' | 'cancel'; readonly nth: number }
  | { readonly kind: 'acquire' }
  | { readonly kind: 'close' | 'pass' | 'slow'; readonly ms: number }

const step = fc.oneof<fc.MaybeWeightedArbitrary<Step>[]>(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('book'), weight: fc.integer({ min: 1, max: 2 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('confirm'), nth: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'acquire' }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel'), nth: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('close'), ms: fc.integer({ min: 1, max: 400 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('pass'), ms: fc.nat(700) }) },
)
const steps = fc.array(step, { minLength: 5, maxLength: 60 })

/** Starts that are booked under an override, and begin after its end. */
const acrossAnEnd = fc
  .tuple(
    fc.integer({ min: 1, max: LONGEST_MS }),
    fc.array(
      fc.oneof<fc.MaybeWeightedArbitrary<Step>[]>(
        { weight: 4, arbitrary: step.filter(({ kind }) => kind !== 'confirm') },
        { weight: 1, arbitrary: fc.record({ kind: fc.constant('book'), weight: fc.constant(1), both: fc.boolean() }) },
      ),
      { maxLength: 20 },
    ),
    steps,
  )
  .map(([ms, before, after]): Step[] => [{ kind: 'slow', ms }, ...before, { kind: 'pass', ms: LONGEST_MS }, ...after])

/** Overrides that are slower than the rules above. */
const SLOWER: Readonly<Record<string, PolicyChange>> = {
  rate: { rate: 1, per: '10s' },
  sliding: { max: 2, per: '10s' },
  spacing: { every: '10s' },
  fixed: { max: 2 },
}

/** Overrides that are faster. */
const FASTER: Readonly<Record<string, PolicyChange>> = {
  rate: { rate: 20, per: '1s', burst: 6 },
  sliding: { max: 6, per: '300ms' },
  spacing: { every: '30ms' },
  fixed: { max: 6 },
}

const briefly = fc.record({ kind: fc.constant('pass' as const), ms: fc.nat(40) })

/** Starts that are booked under an override, and may begin before its end and after it. */
const beforeAnEnd = fc
  .tuple(
    fc.integer({ min: 1, max: 400 }),
    fc.array(fc.oneof({ weight: 3, arbitrary: step }, { weight: 1, arbitrary: briefly }), {
      minLength: 5,
      maxLength: 60,
    }),
  )
  .map(([ms, history]): Step[] => [{ kind: 'slow', ms }, ...history])

describe('booked starts', () => {
  it.each(RULES)('that begin late and in any order keep %s', async (_, policy, keeps) => {
    await fc.assert(
      fc.asyncProperty(steps, async (history) => {
        const starts = await startsOf(policy, history)
        expect({ starts, keeps: keeps(starts) }).toEqual({ starts, keeps: true })
      }),
      { numRuns: 300 },
    )
  })

  it.each(RULES)('for after the end of a slower override keep %s', async (_, policy, keeps) => {
    await fc.assert(
      fc.asyncProperty(acrossAnEnd, async (history) => {
        const starts = await startsOf(policy, history)
        expect({ starts, keeps: keeps(starts) }).toEqual({ starts, keeps: true })
      }),
      { numRuns: 300 },
    )
  })

  it.each(RULES)('that begin after the end of a faster override keep %s', async (_, policy, keeps) => {
    await fc.assert(
      fc.asyncProperty(beforeAnEnd, async (history) => {
        const [first] = history
        const endMs = createManualClock().now() + (first?.kind === 'slow' ? first.ms : 0)
        // The window of the end bears what the override did.
        const fromMs = policy.window === 'fixed' ? Math.ceil(endMs / PER_MS) * PER_MS : endMs
        const starts = (await startsOf(policy, history, FASTER)).filter((atMs) => atMs >= fromMs)
        expect({ starts, keeps: keeps(starts) }).toEqual({ starts, keeps: true })
      }),
      { numRuns: 300 },
    )
  })
})

/** Lets a history happen; it returns the starts, in ms. */
async function startsOf(policy: Policy, history: readonly Step[], changes = SLOWER): Promise<number[]> {
  const clock = createManualClock()
  const crm = limit('crm', policy)
  const other = limit('other', { every: '400ms' })
  const limiter = createLimiter({ backend: 'memory:', limits: [crm, other], clock })
  const starts: number[] = []
  const weights = new Map<string, number>()
  const change = changes[policy.rate === undefined ? (policy.window ?? 'spacing') : 'rate'] as PolicyChange
  // A bucket of one unit bears no more.
  const most = policy.rate !== undefined && policy.burst === 1 ? 1 : 2
  let ids: string[] = []
  for (const each of history) {
    const id = 'nth' in each ? ids[each.nth % Math.max(1, ids.length)] : undefined
    if (each.kind === 'pass') await clock.advance(each.ms)
    else if (each.kind === 'close') await limiter.penalize(crm, each.ms)
    else if (each.kind === 'slow') await limiter.override(crm, change, { until: each.ms })
    else if (each.kind === 'book') {
      const weight = Math.min(most, each.weight)
      const uses = each.both === true ? [crm.weight(weight), other] : [crm.weight(weight)]
      const booked = await limiter.reserve(uses, { atMost: '1m' }).catch(() => null)
      if (booked) weights.set(booked.id, policy.every === undefined ? weight : 1)
      if (booked) ids.push(booked.id)
    }
    if (each.kind === 'acquire')
      await limiter.acquire([crm], { wait: false }).then(
        () => starts.push(clock.now()),
        () => undefined,
      )
    if (id !== undefined && each.kind === 'cancel') {
      await limiter.cancel(id)
      ids = ids.filter((known) => known !== id)
    }
    if (id !== undefined && each.kind === 'confirm') {
      const answer = await limiter.confirm(id)
      if (answer.kind !== 'wait') ids = ids.filter((known) => known !== id)
      if (answer.kind === 'go') for (let i = 0; i < (weights.get(id) ?? 1); i++) starts.push(clock.now())
    }
  }
  await limiter.close()
  return starts
}
