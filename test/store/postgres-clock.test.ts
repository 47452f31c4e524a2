// The estimate of PostgreSQL's clock between two answers.
import { expect, test } from 'vitest'
import type { Clock } from '../../src/base/clock.ts'
import { StoreClock } from '../../src/store/postgres/store-clock.ts'

const SERVER_US = 1_700_000_000_000_000

/** A steady clock that stands where the test sets it, and an estimate that has heard the server once. */
function heard(): { readonly at: (us: number) => void; readonly estimate: StoreClock } {
  let steadyUs = 0
  const clock: Clock = {
    bootId: 'boot',
    now: () => 0,
    monotonicUs: () => steadyUs,
    setTimer: () => {
      throw new RangeError('The estimate sets no timer')
    },
  }
  const estimate = new StoreClock(clock)
  estimate.saw(SERVER_US)
  return { at: (us) => void (steadyUs = us), estimate }
}

test('an answer that comes late leaves the estimate', () => {
  const { at, estimate } = heard()
  at(100_000)
  estimate.saw(SERVER_US + 100_000 - 5000)
  expect(estimate.nowUs()).toBe(SERVER_US + 100_000)
})

test('an answer that comes earlier than all before corrects it', () => {
  const { at, estimate } = heard()
  at(100_000)
  estimate.saw(SERVER_US + 100_300)
  expect(estimate.nowUs()).toBe(SERVER_US + 100_300)
})

test('it does not age by itself, and gives way to later answers as far as clocks drift apart', () => {
  const { at, estimate } = heard()
  at(60_000_000)
  expect(estimate.nowUs()).toBe(SERVER_US + 60_000_000)
  estimate.saw(SERVER_US + 60_000_000 - 12_000)
  expect(estimate.nowUs()).toBe(SERVER_US + 60_000_000 - 12_000)
  at(61_000_000)
  estimate.saw(SERVER_US + 61_000_000 - 12_300)
  expect(estimate.nowUs()).toBe(SERVER_US + 61_000_000 - 12_000)
})

test.each([21_000, 500_000, 3_600_000_000])('a server clock set back by %i µs is followed at once', (backUs) => {
  const { at, estimate } = heard()
  at(1000)
  estimate.saw(SERVER_US + 1000 - backUs)
  expect(estimate.nowUs()).toBe(SERVER_US + 1000 - backUs)
})
