import { expect, test } from 'vitest'
import { inLaneOrder } from '../../src/jobs/lane.ts'

const uses = (...keys: string[]): { limit: string; key: string }[] => keys.map((key) => ({ limit: 'r', key }))

test('buckets stand in lane order by limit, then by key', () => {
  const given = [
    { limit: 'b', key: '' },
    { limit: 'a', key: 'y' },
    { limit: 'a', key: 'x' },
  ]
  expect(inLaneOrder(given).map(({ limit, key }) => limit + key)).toEqual(['ax', 'ay', 'b'])
})

test('keys are in the order of their UTF-8 bytes, for characters of all planes', () => {
  const keys = [
    '',
    'a',
    'ab',
    'b',
    '\u00ff',
    '\ud7ff',
    '\ue000',
    '\uff21',
    '\uffff',
    '\u{10000}',
    '\u{1f600}',
    '\u{1f600}a',
    '\u{10ffff}',
  ]
  const bytes = keys.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  expect(inLaneOrder(uses(...keys.toReversed())).map(({ key }) => key)).toEqual(bytes)
})
