import type { Clock } from './clock.ts'

/** Whether a promise settles within `ms` on the clock. Its outcome is left to its other users. */
export async function settlesWithin(clock: Clock, promise: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = clock.setTimer(() => resolve(false), ms)
    const settled = (): void => {
      timer.cancel()
      resolve(true)
    }
    promise.then(settled, settled)
  })
}

/** Work that runs once, however many callers ask for it. After a failure the next caller starts it again. */
export class Once<T> {
  readonly #work: () => Promise<T>
  #doing: Promise<T> | null = null

  constructor(work: () => Promise<T>) {
    this.#work = work
  }

  /** Starts the work, or joins the run in progress. It rejects with the error of the work. */
  done(): Promise<T> {
    this.#doing ??= this.#work().catch((error: unknown) => {
      this.#doing = null
      throw error
    })
    return this.#doing
  }

  /** Waits for the run in progress, and ignores its outcome. */
  async settled(): Promise<void> {
    await this.#doing?.catch(() => undefined)
  }
}
