import { expect, test } from 'vitest'
import { Costly } from '../../src/base/costly.ts'
import { createManualClock, type ManualClock } from '../../src/exports/testing.ts'

/** A question that takes some time on a manual clock, and an estimate that takes none. */
function slow(estimate: () => Promise<string | null>): {
  readonly clock: ManualClock
  readonly costly: Costly<string>
  readonly end: (tookMs: number, answer: string) => Promise<void>
} {
  const clock = createManualClock()
  let asked = Promise.withResolvers<string>()
  const costly = new Costly(clock, () => asked.promise, estimate)
  return {
    clock,
    costly,
    end: async (tookMs, answer) => {
      await clock.advance(tookMs)
      asked.resolve(answer)
      await asked.promise
      await new Promise((resolve) => setImmediate(resolve))
      asked = Promise.withResolvers()
    },
  }
}

test('what is slow to ask is estimated first, and the answer follows', async () => {
  let estimates = 0
  const { clock, costly, end } = slow(() => Promise.resolve(`about ${++estimates}`))
  expect(await costly.get()).toMatchObject({ value: 'about 1', fresh: false, estimated: true })
  await clock.advance(600)
  expect(await costly.get()).toMatchObject({ value: 'about 1', estimated: true })
  // The answer is on its way, however old the estimate is.
  await clock.advance(20_000)
  expect(await costly.get()).toMatchObject({ value: 'about 1', estimated: true })
  await end(1000, 'exact')
  expect(await costly.get()).toMatchObject({ value: 'exact', fresh: false, estimated: false })
})

test('an old estimate and an old answer are replaced by a new estimate', async () => {
  let estimates = 0
  const { clock, costly, end } = slow(() => Promise.resolve(`about ${++estimates}`))
  await costly.get()
  await clock.advance(11_000)
  expect(await costly.get()).toMatchObject({ value: 'about 2', estimated: true })
  await clock.advance(600)
  await costly.get()
  await end(1000, 'exact')
  await clock.advance('1h')
  expect(await costly.get()).toMatchObject({ value: 'about 3', estimated: true })
})

test('an estimate that fails is made again, and one that says nothing leaves the answer', async () => {
  const estimates = [() => Promise.reject(new Error('the server is away')), () => Promise.resolve(null)]
  const { costly, end } = slow(() => (estimates.shift() as () => Promise<null>)())
  await expect(costly.get()).rejects.toThrow('the server is away')
  const answer = costly.get()
  await end(5, 'exact')
  expect(await answer).toMatchObject({ value: 'exact', fresh: true, estimated: false })
})
