import { describe, expect, test } from 'vitest'
import type { Sluice, SluiceEvents } from '../../src/exports/index.ts'
import { rate, Room } from './harness.ts'

const NAMES = ['rate_limit.exceeded', 'rate_limit.throttled', 'rate_limit.released'] as const
type ThrottlingEvent = { readonly name: (typeof NAMES)[number]; readonly at: number } & Partial<
  SluiceEvents['rate_limit.exceeded']
> & { readonly deferred: number }

function listen(room: Room, ...engines: readonly Sluice[]): ThrottlingEvent[] {
  const told: ThrottlingEvent[] = []
  for (const engine of engines)
    for (const name of NAMES) engine.on(name, (event) => void told.push({ name, at: room.atUs / 1e6, ...event }))
  return told
}
const sum = (told: readonly ThrottlingEvent[]): number => told.reduce((total, each) => total + each.deferred, 0)

describe('row 39: sustained throttling is told in few events that add up', () => {
  test('a short one: when it begins, and when it is over', async () => {
    const room = await Room.open({ policy: rate(1, 0.9, 1), engine: { eventWindow: '30s' } })
    const told = listen(room, room.first)
    await room.enqueueMany(6, { key: 'A' })
    await room.until(4.6)
    expect(room.secondsOf('A')).toEqual([0, 0.9, 1.8, 2.7, 3.6, 4.5])
    expect(told.map(({ name, at }) => [name, at])).toEqual([
      ['rate_limit.exceeded', 0],
      ['rate_limit.released', 4.5],
    ])
    expect(sum(told)).toBe(5)
    expect(told[0]).toMatchObject({ limit: 'gate', key: 'A', queue: 'default', wanted: 1, granted: 1, deferred: 1 })
    await room.finish()
  })

  test('a long one: once in a window between, for each key by itself', async () => {
    const room = await Room.open({ policy: rate(1, 1, 1), engine: { eventWindow: '30s' } })
    const told = listen(room, room.first)
    await room.enqueueMany(101, { key: 'A' })
    await room.enqueueMany(3, { key: 'B' })
    await room.until(200)
    const ofA = told.filter((each) => each.key === 'A')
    expect(ofA.map(({ name, at, deferred }) => [name.slice(11), at, deferred])).toEqual([
      ['exceeded', 0, 1],
      ['throttled', 30, 29],
      ['throttled', 60, 30],
      ['throttled', 90, 30],
      ['released', 100, 10],
    ])
    expect(sum(told.filter((each) => each.key === 'B'))).toBe(2)
    await room.finish()
  })

  test('switched off, nothing is told', async () => {
    const room = await Room.open({ policy: rate(1, 0.9, 1), engine: { events: false } })
    const told = listen(room, room.first)
    await room.enqueueMany(6, { key: 'A' })
    await room.until(10)
    expect(room.starts).toHaveLength(6)
    expect(told).toEqual([])
    await room.finish()
  })

  test('over several engines each change is told by one of them, and the counts add up', async () => {
    const room = await Room.open({ policy: rate(1, 1, 1), file: true, engine: { eventWindow: '10s' } })
    const other = await room.engine()
    const told = listen(room, room.first, other)
    await room.enqueueMany(20, { key: 'A' }, {}, room.first)
    await room.enqueueMany(21, { key: 'A' }, {}, other)
    await room.until(60)
    expect(told.filter(({ name }) => name === 'rate_limit.exceeded')).toHaveLength(1)
    expect(told.filter(({ name }) => name === 'rate_limit.released')).toHaveLength(1)
    expect(told.filter(({ name }) => name === 'rate_limit.throttled')).toHaveLength(3)
    expect(sum(told)).toBe(40)
    await room.finish()
  })

  test('over a restart the count goes on', async () => {
    const room = await Room.open({ policy: rate(1, 1, 1), file: true })
    const told = listen(room, room.first)
    await room.enqueueMany(11, { key: 'A' })
    await room.until(4.5)
    await room.halt()
    const later = listen(room, await room.engine())
    await room.until(30)
    expect(told.map(({ name }) => name)).toEqual(['rate_limit.exceeded'])
    expect(later.map(({ name }) => name)).toEqual(['rate_limit.released'])
    expect(sum(told) + sum(later)).toBe(10)
    await room.finish()
  })
})
