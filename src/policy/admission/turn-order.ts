/** The turn order: the head's priority, then the lane served least recently, then the older head. */
export interface TurnRank {
  readonly id: number
  /** The level of the head job, higher first. */
  readonly priority: number
  /** Grows at every service: the lowest was served least recently. */
  readonly turn: number
  /** Sequence of the head job. */
  readonly head: number
}

/** Below zero when `a` goes before `b`. */
export function rank(a: TurnRank, b: TurnRank): number {
  return b.priority - a.priority || a.turn - b.turn || a.head - b.head || a.id - b.id
}

/** A binary heap of ranked entries: the next in turn is on top. */
export class TurnOrder<T extends TurnRank> {
  readonly #entries: T[] = []

  get top(): T | undefined {
    return this.#entries[0]
  }

  push(entry: T): void {
    const entries = this.#entries
    let at = entries.length
    entries.push(entry)
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = entries[parent]
      if (!above || rank(entry, above) >= 0) break
      entries[at] = above
      at = parent
    }
    entries[at] = entry
  }

  pop(): T | undefined {
    const entries = this.#entries
    const top = entries[0]
    const last = entries.pop()
    if (last === undefined || entries.length === 0) return top
    let at = 0
    for (;;) {
      const left = 2 * at + 1
      if (left >= entries.length) break
      const right = left + 1
      const first = entries[left] as T
      const second = entries[right]
      const child = second !== undefined && rank(second, first) < 0 ? right : left
      const below = entries[child] as T
      if (rank(last, below) <= 0) break
      entries[at] = below
      at = child
    }
    entries[at] = last
    return top
  }
}
