/** Logic that asks a store questions: SQLite answers at once, PostgreSQL question by question. */
export type Reading<T> = Generator<() => unknown, T, unknown>

/** An answer of a store, given at once or later. */
export type Answer<T> = T | Promise<T>

/** Asks the store one question. The driver throws the store's error here, so that `try` and `finally` work as usual. */
export function* ask<T>(question: () => Answer<T>): Reading<T> {
  return (yield question) as T
}

/** Runs a reading whose questions are answered at once. */
export function readNow<T>(reading: Reading<T>): T {
  let step = reading.next()
  while (!step.done) {
    let answer: unknown
    try {
      answer = step.value()
    } catch (error) {
      step = reading.throw(error)
      continue
    }
    step = reading.next(answer)
  }
  return step.value
}

/** Runs a reading whose answers may be promises. */
export async function readAsync<T>(reading: Reading<T>): Promise<T> {
  let step = reading.next()
  while (!step.done) {
    let answer: unknown
    try {
      answer = await step.value()
    } catch (error) {
      step = reading.throw(error)
      continue
    }
    step = reading.next(answer)
  }
  return step.value
}
