// Booked starts that begin at any time and in any order: what really starts keeps the rule.
import { describe, expect, it } from 'vitest'
import { createLimiter, limit } from '../../src/exports/limiter.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'
import * as fc from '../properties.ts'

const PER_MS = 1000

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

const steps = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('book' as const), weight: fc.integer({ min: 1, max: 2 }) }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('confirm' as const), nth: fc.nat(20) }) },
    { weight: 1, arbitrary: fc.constant({ kind: 'acquire' as const }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel' as const), nth: fc.nat(20) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('close' as const), ms: fc.integer({ min: 1, max: 400 }) }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.nat(700) }) },
  ),
  { minLength: 5, maxLength: 60 },
)

describe('booked starts', () => {
  it.each(RULES)('that begin late and in any order keep %s', async (_, policy, keeps) => {
    await fc.assert(
      fc.asyncProperty(steps, async (history) => {
        const clock = createManualClock()
        const crm = limit('crm', policy)
        const limiter = createLimiter({ backend: 'memory:', limits: [crm], clock })
        const starts: number[] = []
        const weights = new Map<string, number>()
        // A bucket of one unit bears no more.
        const most = policy.rate !== undefined && policy.burst === 1 ? 1 : 2
        let ids: string[] = []
        for (const step of history) {
          const id = 'nth' in step ? ids[step.nth % Math.max(1, ids.length)] : undefined
          if (step.kind === 'pass') await clock.advance(step.ms)
          else if (step.kind === 'close') await limiter.penalize(crm, step.ms)
          else if (step.kind === 'book') {
            const weight = Math.min(most, step.weight)
            const booked = await limiter.reserve([crm.weight(weight)], { atMost: '1m' }).catch(() => null)
            if (booked) weights.set(booked.id, policy.every === undefined ? weight : 1)
            if (booked) ids.push(booked.id)
          }
          if (step.kind === 'acquire')
            await limiter.acquire([crm], { wait: false }).then(
              () => starts.push(clock.now()),
              () => undefined,
            )
          if (id !== undefined && step.kind === 'cancel') {
            await limiter.cancel(id)
            ids = ids.filter((each) => each !== id)
          }
          if (id !== undefined && step.kind === 'confirm') {
            const answer = await limiter.confirm(id)
            if (answer.kind !== 'wait') ids = ids.filter((each) => each !== id)
            if (answer.kind === 'go') for (let i = 0; i < (weights.get(id) ?? 1); i++) starts.push(clock.now())
          }
        }
        await limiter.close()
        expect({ starts, keeps: keeps(starts) }).toEqual({ starts, keeps: true })
      }),
      { numRuns: 300 },
    )
  })
})
