import { setTimeout } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createManualClock } from '../../src/exports/testing.ts'

test('a manual clock leaves the processor to others while a store or a handler is at work', async () => {
  const clock = createManualClock()
  const [store, handler] = [
    { answered: false, looks: 0 },
    { ended: false, looks: 0 },
  ]
  clock.attach?.({
    pending: () => {
      store.looks++
      return !store.answered
    },
    running: () => {
      handler.looks++
      return handler.ended ? 0 : 1
    },
  })
  let isOver = false
  const advancing = clock.advance('1s').then(() => (isOver = true))
  // The answer of a server, which takes its time.
  await setTimeout(100)
  expect(isOver).toBe(false)
  store.answered = true
  await setTimeout(30)
  handler.ended = true
  await advancing
  // Without a rest these are tens of thousands.
  expect(store.looks).toBeLessThan(500)
  expect(handler.looks).toBeLessThan(500)
})
