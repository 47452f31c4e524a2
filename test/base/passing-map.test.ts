import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import { PassingMap } from '../../src/base/passing-map.ts'
import * as fc from '../properties.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as (options?: { readonly type: 'minor' | 'major' }) => void

const KILOBYTE = 1024
const PASSED = 30_000

/** The bytes on the heap after so many entries have passed through a map that was there before a full collection. */
function keptBy(map: PassingMap<number, unknown>): number {
  const pass = (from: number, to: number): void => {
    for (let i = from; i < to; i += 100) {
      for (let k = i; k < i + 100; k++) map.set(k, { fields: Array.from({ length: KILOBYTE / 8 }, () => k) })
      for (let k = i; k < i + 100; k++) map.delete(k)
    }
  }
  pass(0, 1000)
  map.set(-1, null)
  collect({ type: 'major' })
  const before = process.memoryUsage().heapUsed
  pass(1000, 1000 + PASSED)
  collect({ type: 'minor' })
  return process.memoryUsage().heapUsed - before
}

describe('a map for entries that pass', () => {
  test('answers as a Map does, in its order', () => {
    const steps = fc.array(fc.tuple(fc.boolean(), fc.nat(40)), { maxLength: 1000 })
    fc.assert(
      fc.property(steps, (each) => {
        const [map, model] = [new PassingMap<number, number>(), new Map<number, number>()]
        for (const [n, [sets, key]] of each.entries())
          if (sets) {
            map.set(key, n)
            model.set(key, n)
          } else expect(map.delete(key)).toBe(model.delete(key))
        expect([...map]).toEqual([...model])
        expect([...map.values()]).toEqual([...model.values()])
        expect(map.size).toBe(model.size)
        for (let key = 0; key <= 40; key++)
          expect([map.has(key), map.get(key)]).toEqual([model.has(key), model.get(key)])
      }),
    )
  })

  test('lets a minor collection free what has passed', () => {
    expect(keptBy(new PassingMap())).toBeLessThan((PASSED * KILOBYTE) / 10)
  })
})
