// Booked starts of calendar windows across the end of an override and a change of daylight saving time.
import { expect, it } from 'vitest'
import { createLimiter, limit } from '../../src/exports/limiter.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'
import * as fc from '../properties.ts'

const CHANGES = ['2026-03-29T01:00:00Z', '2026-10-25T01:00:00Z']
const DAY = { timeZone: 'Europe/Paris', year: 'numeric', month: '2-digit', day: '2-digit' } as const
const FORMATS = {
  '1h': new Intl.DateTimeFormat('en', { ...DAY, hour: '2-digit', hourCycle: 'h23', timeZoneName: 'short' }),
  '1d': new Intl.DateTimeFormat('en', DAY),
}

/** The window of an instant, as a calendar in Paris shows it. Both hours of a clock set back are apart. */
function windowOf(per: '1h' | '1d', atMs: number): string {
  return FORMATS[per].format(atMs)
}

const step = fc.oneof<
  fc.MaybeWeightedArbitrary<{ kind: 'book' | 'acquire' | 'confirm' | 'cancel' | 'pass'; n: number }>[]
>(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('book'), n: fc.constant(0) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('acquire'), n: fc.constant(0) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('confirm'), n: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel'), n: fc.nat(9) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('pass'), n: fc.nat(40) }) },
)

it.each(['1h', '1d'] as const)('no window of %s holds more starts than it may', async (per) => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...CHANGES),
      fc.nat(180),
      fc.integer({ min: 1, max: 240 }),
      fc.constantFrom(1, 2, 5),
      fc.array(step, { minLength: 10, maxLength: 60 }),
      async (change, minutesBefore, overrideMinutes, max, history) => {
        const startMs = Date.parse(change) - minutesBefore * 60_000
        const clock = createManualClock({ start: startMs })
        const policy: Policy = { window: 'fixed', max: 2, per, timezone: 'Europe/Paris' }
        const crm = limit('crm', policy)
        const limiter = createLimiter({ backend: 'memory:', limits: [crm], clock })
        await limiter.override(crm, { max }, { until: overrideMinutes * 60_000 })
        const starts: number[] = []
        let ids: string[] = []
        for (const { kind, n } of history) {
          const id = ids[n % Math.max(1, ids.length)]
          if (kind === 'pass') await clock.advance(n * 60_000)
          if (kind === 'book')
            await limiter.reserve([crm], { atMost: '2d' }).then(
              ({ id: own }) => ids.push(own),
              () => undefined,
            )
          if (kind === 'acquire')
            await limiter.acquire([crm], { wait: false }).then(
              () => starts.push(clock.now()),
              () => undefined,
            )
          if (id === undefined || (kind !== 'confirm' && kind !== 'cancel')) continue
          const answer = kind === 'cancel' ? await limiter.cancel(id) : await limiter.confirm(id)
          if (typeof answer === 'object' && answer.kind === 'wait') continue
          ids = ids.filter((known) => known !== id)
          if (typeof answer === 'object' && answer.kind === 'go') starts.push(clock.now())
        }
        await limiter.close()
        const endMs = startMs + overrideMinutes * 60_000
        const counts = Map.groupBy(starts, (atMs) => windowOf(per, atMs))
        for (const [window, within] of counts) {
          // The window of the end bears what the override did.
          const most = window === windowOf(per, endMs) ? Math.max(2, max) : (within[0] ?? 0) < endMs ? max : 2
          expect({ window, starts, isIn: within.length <= most }).toEqual({ window, starts, isIn: true })
        }
      },
    ),
    { numRuns: 40 },
  )
})
