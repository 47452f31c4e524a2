import { describe, expect, it } from 'vitest'
import { ask, readAsync, readNow, type Reading } from '../../../src/store/shared/reading.ts'

type Ask<T> = (question: () => T) => () => T | Promise<T>

const drivers: readonly [name: string, run: <T>(reading: Reading<T>) => Promise<T>, later: Ask<number>][] = [
  [
    'readNow',
    <T>(reading: Reading<T>): Promise<T> => Promise.resolve().then(() => readNow(reading)),
    (question) => question,
  ],
  ['readAsync', readAsync, (question) => (): Promise<number> => Promise.resolve().then(question)],
]

describe.each(drivers)('%s', (_name, run, later) => {
  const fail = later(() => {
    throw new Error('no such table')
  })

  it('asks in order and returns what the reading returns', async () => {
    const asked: number[] = []
    const question = (value: number): (() => number | Promise<number>) => later(() => asked.push(value) && value)
    function* sum(): Reading<number> {
      const first = yield* ask(question(20))
      expect(asked).toEqual([20])
      return first + (yield* ask(question(22)))
    }
    expect(await run(sum())).toBe(42)
    expect(asked).toEqual([20, 22])
  })

  it('returns at once where nothing is asked', async () => {
    // oxlint-disable-next-line require-yield
    function* nothing(): Reading<string> {
      return 'done'
    }
    expect(await run(nothing())).toBe('done')
  })

  it('throws an error of the store into the reading', async () => {
    const steps: string[] = []
    function* careful(): Reading<number> {
      try {
        return yield* ask(fail)
      } catch (error) {
        steps.push((error as Error).message)
      } finally {
        steps.push('finally')
      }
      return yield* ask(later(() => 7))
    }
    expect(await run(careful())).toBe(7)
    expect(steps).toEqual(['no such table', 'finally'])
  })

  it('rejects with what the reading does not catch, once its finally has run', async () => {
    let released = false
    function* careless(): Reading<number> {
      try {
        return yield* ask(fail)
      } finally {
        yield* ask(later(() => 0))
        released = true
      }
    }
    await expect(run(careless())).rejects.toThrow('no such table')
    expect(released).toBe(true)
  })
})
