import { describe, expect, test } from 'vitest'
import { every, expectSeconds, rate, Room, times, window } from './harness.ts'

describe('a rate with a burst', () => {
  test('starts a burst at once, then one job per interval', async () => {
    const room = await Room.open({ policy: rate(15, 60) })
    await room.enqueueMany(20, { key: 'A' })
    await room.until(10)
    await room.until(60)
    expectSeconds(room.secondsOf('A'), [...times(15, 0), 4, 8, 12, 16, 20])
    await room.finish()
  })

  test('of one spaces its starts evenly', async () => {
    const room = await Room.open({ policy: rate(15, 60, 1) })
    await room.enqueueMany(6, { key: 'A' })
    await room.until(30)
    expectSeconds(room.secondsOf('A'), [0, 4, 8, 12, 16, 20])
    await room.finish()
  })

  test('whose interval is no whole number of microseconds does not drift over 300 starts', async () => {
    const room = await Room.open({ policy: rate(3, 10, 1) })
    await room.enqueueMany(301, { key: 'A' })
    await room.until(5)
    await room.until(1001)
    expectSeconds(
      room.secondsOf('A'),
      Array.from({ length: 301 }, (_, i) => (i * 10) / 3),
    )
    await room.finish()
  })

  test('is full again after a quiet time, and no fuller', async () => {
    const room = await Room.open({ policy: rate(5, 50) })
    await room.enqueueMany(5, { key: 'A' })
    await room.until(60)
    await room.enqueueMany(6, { key: 'A' })
    await room.until(80)
    expectSeconds(room.secondsOf('A'), [...times(5, 0), ...times(5, 60), 70])
    await room.finish()
  })

  test('that starts empty begins with one token', async () => {
    const room = await Room.open({ policy: { ...rate(10, 100), startEmpty: true } })
    await room.enqueueMany(2, { key: 'A' })
    await room.until(20)
    expectSeconds(room.secondsOf('A'), [0, 10])
    await room.finish()
  })

  test('that starts empty keeps what it has earned, though idle buckets are forgotten', async () => {
    const room = await Room.open({ policy: { ...rate(10, 100), startEmpty: true } })
    await room.enqueue({ key: 'A' })
    await room.until(301)
    await room.enqueueMany(11, { key: 'A' })
    await room.until(330)
    expectSeconds(room.secondsOf('A'), [0, ...times(10, 301), 311])
    await room.finish()
  })

  test('lets a default policy run a backlog of a thousand to its end without a failure', async () => {
    const room = await Room.open({ policy: rate(15, 60) })
    await room.enqueueMany(1000, { key: 'A' })
    await room.until(2000)
    await room.until(4000)
    expectSeconds(room.secondsOf('A'), [...times(15, 0), ...every(4, 4, 3940)])
    await room.finish()
  })

  test('of a few per day holds the next job for hours rather than dropping it', async () => {
    const room = await Room.open({ policy: rate(5, 86_400) })
    await room.enqueueMany(6, { key: 'A' })
    await room.until(17_000)
    await room.until(17_281)
    expectSeconds(room.secondsOf('A'), [...times(5, 0), 17_280])
    await room.finish()
  })
})

describe('a sliding window', () => {
  test('holds no more than its maximum wherever it starts, and is refilled at the exact instant', async () => {
    const room = await Room.open({ policy: window(15, 60) })
    await room.enqueueMany(32, { key: 'A' })
    await room.until(30)
    await room.until(130)
    expectSeconds(room.secondsOf('A'), [...times(15, 0), ...times(15, 60), ...times(2, 120)])
    await room.finish()
  })

  test('with a full backlog uses its whole budget', async () => {
    const room = await Room.open({ policy: window(7, 10) })
    await room.enqueueMany(100, { key: 'A' })
    await room.until(99.999)
    expect(room.starts.length).toBe(70)
    await room.finish({ waiting: 30 })
  })
})

describe('partition keys', () => {
  test('have budgets of their own', async () => {
    const room = await Room.open({ policy: rate(1, 60) })
    await room.enqueue({ key: 'A' })
    await room.enqueue({ key: 'A' })
    await room.enqueue({ key: 'B' })
    await room.until(61)
    expectSeconds(room.secondsOf('A'), [0, 60])
    expectSeconds(room.secondsOf('B'), [0])
    await room.finish()
  })

  test('do not delay each other with few workers', async () => {
    const room = await Room.open({ policy: rate(1, 0.9), engine: { queues: { default: { concurrency: 3 } } } })
    await room.enqueueMany(5, { key: 'A' })
    await room.enqueue({ key: 'B' })
    await room.until(4)
    expectSeconds(room.secondsOf('B'), [0])
    expectSeconds(room.secondsOf('A'), [0, 0.9, 1.8, 2.7, 3.6])
    await room.finish()
  })

  test('of 2,000 characters that differ in the last one are two keys', async () => {
    const room = await Room.open({ policy: rate(1, 60) })
    const long = 'k'.repeat(1999)
    for (const last of ['a', 'a', 'b']) await room.enqueue({ key: long + last })
    await room.until(61)
    expectSeconds(room.secondsOf(`${long}a`), [0, 60])
    expectSeconds(room.secondsOf(`${long}b`), [0])
    await room.finish()
  })

  test('that are empty leave a job unlimited, with one warning for all', async () => {
    const room = await Room.open({ policy: rate(1, 60) })
    for (const key of ['', '', '']) await room.enqueue({ key })
    await room.until(1)
    expectSeconds(room.secondsOf(''), [0, 0, 0])
    expect(room.warnings.filter((message) => message.includes("the key is ''"))).toHaveLength(1)
    await room.finish()
  })

  test('come apart in any order, and are forgotten when they are idle', async () => {
    const room = await Room.open({ policy: rate(1, 60) })
    for (const key of ['k1', 'k2', 'k3', 'k3', 'k1']) await room.enqueue({ key })
    await room.until(61)
    expectSeconds(room.secondsOf('k1'), [0, 60])
    expectSeconds(room.secondsOf('k2'), [0])
    expectSeconds(room.secondsOf('k3'), [0, 60])
    await room.until(301)
    expect(await room.first.limits.inspect('gate')).toEqual([])
    await room.finish()
  })

  test('and names are told apart whatever characters they hold', async () => {
    const room = await Room.open({ policy: rate(1, 60) })
    const keys = ['a', 'b:c', 'a:b', 'c', 'ünï', '漢字', 'a.b', '_global', ' ', '1000000', '9007199254740993']
    for (const key of [...keys, ...keys]) await room.enqueue({ key })
    await room.until(61)
    for (const key of keys) expectSeconds(room.secondsOf(key), [0, 60])
    await room.finish()
  })
})
