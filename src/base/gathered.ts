import { isFinal, mayPass } from './errors.ts'

interface Batch<Item, Answer> {
  readonly items: Item[]
  calls: number
  readonly answers: Promise<readonly Answer[]>
}

/** The most items of one batch. */
const AT_ONCE = 500

/** Collects the calls that are made while one batch is on its way into the next. A call that fails fails alone. */
export class Gathered<Item, Answer> {
  readonly #send: (items: readonly Item[]) => Promise<readonly Answer[]>
  #open: Batch<Item, Answer> | null = null
  #sending: Promise<unknown> = Promise.resolve()

  /** @param send returns one answer for each item, in their order */
  constructor(send: (items: readonly Item[]) => Promise<readonly Answer[]>) {
    this.#send = send
  }

  async add(items: readonly Item[]): Promise<readonly Answer[]> {
    const hasRoom = this.#open !== null && this.#open.items.length + items.length <= AT_ONCE
    const batch = hasRoom && this.#open ? this.#open : this.#begin()
    const from = batch.items.length
    batch.calls++
    batch.items.push(...items)
    try {
      return (await batch.answers).slice(from, from + items.length)
    } catch (error) {
      if (batch.calls === 1 || mayPass(error) || isFinal(error)) throw error
      return this.#send(items)
    }
  }

  #begin(): Batch<Item, Answer> {
    const items: Item[] = []
    const answers = this.#sending.then(() => {
      if (this.#open?.items === items) this.#open = null
      return this.#send(items)
    })
    this.#sending = answers.catch(() => undefined)
    return (this.#open = { items, calls: 0, answers })
  }
}
