/** Work that is done once, whoever asks for it and however often; after a failure the next who asks begins it anew. */
export class Once<T> {
  readonly #work: () => Promise<T>
  #doing: Promise<T> | null = null

  constructor(work: () => Promise<T>) {
    this.#work = work
  }

  /** Begins it, or joins what has begun. @throws whatever the work throws */
  done(): Promise<T> {
    this.#doing ??= this.#work().catch((error: unknown) => {
      this.#doing = null
      throw error
    })
    return this.#doing
  }

  /** Waits for what has begun, however it ends. */
  async settled(): Promise<void> {
    await this.#doing?.catch(() => undefined)
  }
}
