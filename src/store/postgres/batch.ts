import { concernsAll } from '../../database/postgres-error.ts'

interface Call<Item, Answer> {
  readonly items: readonly Item[]
  resolve(answers: Answer[]): void
  reject(error: unknown): void
}

/** The most items in one statement: a longer one takes more time than it saves. */
const AT_ONCE = 500
/** The most batches in flight: one is sent while the last becomes durable. */
const IN_FLIGHT = 2

/** Collects calls made while others are in flight into the next statement. A call that fails in a batch fails alone. */
export class Batch<Item, Answer> {
  readonly #send: (items: readonly Item[]) => Promise<Answer[]>
  #waiting: Call<Item, Answer>[] = []
  #inFlight = 0
  #scheduled = false

  constructor(send: (items: readonly Item[]) => Promise<Answer[]>) {
    this.#send = send
  }

  get pending(): boolean {
    return this.#inFlight > 0 || this.#waiting.length > 0
  }

  /** Whether the next statement is sent in this turn of the event loop. */
  get isLeaving(): boolean {
    return this.#scheduled
  }

  add(items: readonly Item[]): Promise<Answer[]> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ items, resolve, reject })
      this.#schedule()
    })
  }

  #schedule(): void {
    if (this.#scheduled || this.#inFlight >= IN_FLIGHT) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      void this.#flush()
    })
  }

  async #flush(): Promise<void> {
    const calls: Call<Item, Answer>[] = []
    let count = 0
    while (this.#waiting[0] && (count === 0 || count + this.#waiting[0].items.length <= AT_ONCE)) {
      const call = this.#waiting.shift() as Call<Item, Answer>
      count += call.items.length
      calls.push(call)
    }
    if (calls.length === 0) return
    this.#inFlight++
    await this.#run(calls)
    this.#inFlight--
    if (this.#waiting.length > 0) this.#schedule()
  }

  async #run(calls: readonly Call<Item, Answer>[]): Promise<void> {
    try {
      const answers = await this.#send(calls.flatMap((call) => call.items))
      let at = 0
      for (const call of calls) call.resolve(answers.slice(at, (at += call.items.length)))
    } catch (error) {
      if (calls.length === 1 || concernsAll(error)) for (const call of calls) call.reject(error)
      else {
        const middle = calls.length >> 1
        await this.#run(calls.slice(0, middle))
        await this.#run(calls.slice(middle))
      }
    }
  }
}
