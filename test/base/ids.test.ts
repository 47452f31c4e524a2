import { describe, expect, test } from 'vitest'
import { createIds, isJobId } from '../../src/base/ids.ts'
import { seededRandom } from '../../src/base/random.ts'

const settable = (nowMs: number): { now: () => number; nowMs: number } => {
  const clock = { nowMs, now: () => clock.nowMs }
  return clock
}

describe('createIds', () => {
  test('makes UUIDs of version 7 in lower case that carry the time of the clock', () => {
    const id = createIds(settable(1_700_000_000_123.9))()
    expect(isJobId(id)).toBe(true)
    expect(Number.parseInt(id.replace('-', '').slice(0, 12), 16)).toBe(1_700_000_000_123)
  })

  test('keeps the order within one millisecond', () => {
    const next = createIds(settable(1_700_000_000_000))
    const ids = Array.from({ length: 10_000 }, next)
    expect(ids).toEqual(ids.toSorted())
    expect(new Set(ids).size).toBe(ids.length)
  })

  test('keeps the order when the clock steps back by hours, and after it has caught up', () => {
    const clock = settable(1_700_000_000_000)
    const next = createIds(clock)
    const ids = [next()]
    for (const stepMs of [-1, -86_400_000, 86_400_002, 60_000]) {
      clock.nowMs += stepMs
      ids.push(next(), next())
    }
    expect(ids).toEqual(ids.toSorted())
    expect(ids.every(isJobId)).toBe(true)
  })

  test('bears a clock before 1970', () => {
    expect(isJobId(createIds(settable(-5))())).toBe(true)
  })

  test('repeats its ids from a seed', () => {
    const make = (seed: number): string[] => Array.from({ length: 3 }, createIds(settable(5), seededRandom(seed)))
    expect(make(1)).toEqual(make(1))
    expect(make(1)).not.toEqual(make(2))
  })
})

describe('isJobId', () => {
  test.each([
    ['0189dcd5-5311-7d40-8db0-9496a2eef37b', true],
    ['0189DCD5-5311-7D40-8DB0-9496A2EEF37B', false],
    ['0189dcd5-5311-4d40-8db0-9496a2eef37b', false],
    ['0189dcd5-5311-7d40-cdb0-9496a2eef37b', false],
    ['0189dcd553117d408db09496a2eef37b', false],
    ['0189dcd5-5311-7d40-8db0-9496a2eef37b\n', false],
    ['', false],
  ])('of %j is %s', (text, expected) => {
    expect(isJobId(text)).toBe(expected)
  })
})
