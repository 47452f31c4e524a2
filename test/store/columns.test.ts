import { expect, expectTypeOf, test } from 'vitest'
import { column, columns, type RowOf } from '../../src/store/shared/columns.ts'

const JOB = columns({
  seq: column<number>(),
  createdUs: column<number>('created'),
  result: column<string | null>(),
  priority: column<number>('coalesce(j.asked, j.priority)'),
})

test('lists its columns in the order of their fields', () => {
  expect(JOB.list).toBe('seq, created, result, coalesce(j.asked, j.priority)')
})

test('puts an alias before names, and leaves expressions alone', () => {
  expect(JOB.of('j')).toBe('j.seq, j.created, j.result, coalesce(j.asked, j.priority)')
})

test('names the fields of a row, and passes over what stands behind them', () => {
  expect(JOB.read([7, 12, null, 3, 'more'])).toEqual({ seq: 7, createdUs: 12, result: null, priority: 3 })
})

test('reads each row into a record of its own', () => {
  const rows = [
    [1, 2, 'a', 3],
    [4, 5, null, 6],
  ]
  expect(rows.map((row) => JOB.read(row)).map(({ seq, result }) => `${seq} ${result}`)).toEqual(['1 a', '4 null'])
})

test('reads no row as none', () => {
  const none = [[1, 2, null, 3]].find(([seq]) => seq === 9)
  expect(JOB.read(none)).toBeUndefined()
})

test('gives each field the type of its column', () => {
  expectTypeOf<RowOf<typeof JOB>>().toEqualTypeOf<{
    readonly seq: number
    readonly createdUs: number
    readonly result: string | null
    readonly priority: number
  }>()
  expectTypeOf(JOB.read([])).toEqualTypeOf<RowOf<typeof JOB>>()
})
