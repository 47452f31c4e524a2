import type { StepRecord } from '../../jobs/workflow.ts'

/** Whether a step has ended for good. */
export function hasEnded({ state }: StepRecord): boolean {
  return state === 'done' || state === 'failed' || state === 'skipped'
}

/**
 * The order in which an entry answers what is remembered: that in which it ended. A body that races two steps sees the
 * same winner at each entry. Steps that are asked for one after the other are answered at once.
 */
export class AnswerOrder {
  readonly #names: readonly string[]
  readonly #answered = new Set<string>()
  #next = 0
  /** The last end, store clock; 0: nothing has ended. */
  readonly lastUs: number

  constructor(steps: readonly StepRecord[]) {
    const ended = steps.filter(hasEnded).toSorted((a, b) => (a.finishedUs ?? 0) - (b.finishedUs ?? 0))
    this.#names = ended.filter(({ name }) => !name.startsWith('~')).map(({ name }) => name)
    this.lastUs = ended.at(-1)?.finishedUs ?? 0
  }

  /** The step that ended first among those that were not answered; undefined: all were. */
  get first(): string | undefined {
    while (this.#next < this.#names.length && this.#answered.has(this.#names[this.#next] as string)) this.#next++
    return this.#names[this.#next]
  }

  answered(name: string): void {
    this.#answered.add(name)
  }

  /** Of these steps the one that ended first. */
  firstOf(names: ReadonlyMap<string, unknown>): string | undefined {
    for (let i = this.#next; i < this.#names.length; i++) {
      const name = this.#names[i] as string
      if (names.has(name)) return name
    }
    return undefined
  }
}
