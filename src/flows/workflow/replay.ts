import type { StepRecord } from '../../jobs/flow-memory.ts'

/** Whether a step has ended for good. */
export function hasEnded({ state }: StepRecord): boolean {
  return state === 'done' || state === 'failed' || state === 'skipped'
}

/**
 * Answers one entry of a body what is remembered, in the order in which it ended. A body that races two steps sees the
 * same winner at each entry. Steps that are asked for one after the other are answered at once.
 */
export class Replay {
  readonly #remembered: ReadonlyMap<string, StepRecord>
  /** The steps that have ended, in their order. */
  readonly #names: readonly string[]
  readonly #answered = new Set<string>()
  /** Steps that were asked for and wait for those that ended before them. */
  readonly #held = new Map<string, (record: StepRecord) => void>()
  #next = 0
  /** The last end, store clock; 0: nothing has ended. */
  readonly lastUs: number

  constructor(steps: readonly StepRecord[]) {
    this.#remembered = new Map(steps.map((step) => [step.name, step]))
    const ended = steps.filter(hasEnded).toSorted((a, b) => (a.finishedUs ?? 0) - (b.finishedUs ?? 0))
    this.#names = ended.filter(({ name }) => !name.startsWith('~')).map(({ name }) => name)
    this.lastUs = ended.at(-1)?.finishedUs ?? 0
  }

  /** The record of a step that was remembered at the entry. */
  get(name: string): StepRecord | undefined {
    return this.#remembered.get(name)
  }

  /** The names of all that is remembered. */
  get names(): Iterable<string> {
    return this.#remembered.keys()
  }

  /** Answers a step that has ended: at once, unless something ended before it that was not answered yet. */
  ask(name: string, answer: (record: StepRecord) => void): void {
    this.#held.set(name, answer)
    if (this.#first === name) this.#answer(name)
  }

  /** Whether an answer is held back. */
  get isHolding(): boolean {
    return this.#held.size > 0
  }

  /**
   * Gives the next answer that is held back. False: none may be given.
   * @param isResting nothing else goes on, so the body will not ask for what ended before
   */
  next(isResting: boolean): boolean {
    const first = this.#first
    const held = first !== undefined && this.#held.has(first) ? first : this.#firstHeld()
    if (held === undefined || (held !== first && !isResting)) return false
    this.#answer(held)
    return true
  }

  /** The step that ended first among those that were not answered; undefined: all were. */
  get #first(): string | undefined {
    while (this.#next < this.#names.length && this.#answered.has(this.#names[this.#next] as string)) this.#next++
    return this.#names[this.#next]
  }

  /** Of the steps that are held back the one that ended first. */
  #firstHeld(): string | undefined {
    if (this.#held.size === 0) return undefined
    for (let i = this.#next; i < this.#names.length; i++) {
      const name = this.#names[i] as string
      if (this.#held.has(name)) return name
    }
    return undefined
  }

  #answer(name: string): void {
    const answer = this.#held.get(name)
    this.#held.delete(name)
    this.#answered.add(name)
    answer?.(this.#remembered.get(name) as StepRecord)
  }
}
