import { expect, test } from 'vitest'
import { addTallies, type Tallies } from '../../src/jobs/tally.ts'

test('a name that every object has is counted as any other, and changes no other object', () => {
  const text = '{"__proto__":{"s":1,"b":{"__proto__":5,"crm":2}},"constructor":{"s":3}}'
  const sums: Tallies = {}
  addTallies(sums, JSON.parse(text) as Tallies)
  addTallies(sums, JSON.parse(text) as Tallies)
  expect(JSON.stringify(sums)).toBe('{"__proto__":{"s":2,"b":{"__proto__":10,"crm":4}},"constructor":{"s":6}}')
  expect(({} as Record<string, unknown>)['s']).toBeUndefined()
  expect((Object as unknown as Record<string, unknown>)['s']).toBeUndefined()
})
