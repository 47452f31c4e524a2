import type { FlowSignal, StepRecord } from '../../jobs/flow-memory.ts'
import type { FlowEnd, FlowEntry } from '../../engine/define/flow-entry.ts'
import type { FlowMove, NewChild } from '../../jobs/workflow.ts'
import { moveOf } from '../shared/records.ts'

/** A move without what was noted. */
export type BareMove = Pick<FlowMove, 'then'> & Partial<Omit<FlowMove, 'then'>>

/** The ends of steps that no settlement has written yet, and the signals that the body was handed. */
export class Notes {
  readonly #entry: FlowEntry
  #steps: StepRecord[] = []
  #consumed: number[] = []
  readonly #read = new Set<number>()
  #lastUs: number
  readonly #writes = new Set<Promise<FlowEnd | null>>()

  /** @param lastUs the last end that is remembered, store clock */
  constructor(entry: FlowEntry, lastUs: number) {
    this.#entry = entry
    this.#lastUs = lastUs
  }

  /** Notes the end of a step. No two ends have the same instant, so that their order is remembered. */
  add(record: StepRecord): void {
    this.#lastUs = Math.max(this.#entry.store.nowUs(), this.#lastUs + 1)
    this.#steps.push({ ...record, finishedUs: this.#lastUs })
  }

  /** Notes a signal that was handed over. */
  read({ seq }: FlowSignal): void {
    this.#read.add(seq)
    this.#consumed.push(seq)
  }

  hasRead({ seq }: FlowSignal): boolean {
    return this.#read.has(seq)
  }

  has(name: string): boolean {
    return this.#steps.some((each) => each.name === name)
  }

  /** Takes what was noted into a move. */
  into(move: BareMove): FlowMove {
    const steps = [...this.#steps, ...(move.steps ?? [])]
    const consumed = this.#consumed
    this.#steps = []
    this.#consumed = []
    return moveOf({ ...move, steps, consumed })
  }

  /** Writes what was noted, before any other effect. Null: the run goes on. */
  async write(children: readonly NewChild[] = []): Promise<FlowEnd | null> {
    if (this.#steps.length === 0) return null
    const written = this.#entry.stay(this.into({ children, then: { kind: 'stay' } }))
    this.#writes.add(written)
    return written.finally(() => this.#writes.delete(written))
  }

  /** Resolves once all writes have been answered; null: none is in flight. */
  get writing(): Promise<unknown> | null {
    return this.#writes.size > 0 ? Promise.allSettled(this.#writes) : null
  }
}
