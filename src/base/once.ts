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
