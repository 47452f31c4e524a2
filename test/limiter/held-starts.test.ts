// Starts that were granted ahead, and that their process holds until their instants.
import { expect, it } from 'vitest'
import { HeldStarts } from '../../src/limiter/client/held-starts.ts'
import { Waiter } from '../../src/limiter/client/waiter.ts'
import type { Granted } from '../../src/limiter/contract/limiter.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'

it('the start of a caller that stops waiting is taken out at once, and once', async () => {
  const clock = createManualClock()
  const back: Granted[] = []
  const told: Granted[] = []
  const held = new HeldStarts({
    clock,
    limits: { policy: () => null, definitions: () => [] } as never,
    giveBack: async (_, granted) => void back.push(granted),
    again: () => undefined,
  })
  const waiter = (): Waiter =>
    new Waiter([{ limit: 'api', key: '', weight: 1 }], 0, Infinity, {
      resolve: (answer) => void told.push(answer),
      reject: () => undefined,
      ended: () => undefined,
    })
  const [first, second] = [waiter(), waiter()]
  const starts = [first, second].map((each, i): Granted => {
    const granted: Granted = { kind: 'granted', atUs: i, startInUs: 5_000_000, permit: null }
    expect(held.hold(each, granted)).toBe(true)
    return granted
  })
  expect(held.leave(first)).toBe(starts[0])
  expect(held.leave(first)).toBeNull()
  await clock.advance('6s')
  expect(back).toEqual([])
  expect(told).toEqual([starts[1]])
  expect(held.leave(second)).toBeNull()
})
