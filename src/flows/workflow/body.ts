import type { FlowMemory, StepRecord } from '../../jobs/flow-memory.ts'
import type { FlowEntry } from '../../engine/define/flow-entry.ts'
import type { Home } from '../shared/arrivals.ts'
import type { Want } from './ask.ts'
import type { WorkflowCode } from './code.ts'

/**
 * Makes what a body wants by a step that has not ended.
 * @param granted the run that was started for this step, whose budget is paid; null: none was
 */
export type MakeWant = (name: string, granted: FlowEntry | null) => Want | Promise<Want>

/** A body that was entered, as its `flow` sees it. */
export interface Body {
  readonly code: WorkflowCode
  readonly entry: FlowEntry
  readonly memory: FlowMemory
  readonly home: Home
  /** How often a run of this entry was lost. */
  readonly lost: number
  /** Asks for a step, and answers its end. @throws {SluiceError} for a name that it cannot have */
  ask(base: string, make: MakeWant): Promise<StepRecord>
  /** @throws {SluiceError} `step.nested` within the code of a step */
  checkOutside(what: string, name: unknown): void
  /** The record of a step that was remembered at the entry. */
  remembered(name: string): StepRecord | undefined
  /** Steps that are remembered or granted, and that this entry has not asked for yet. */
  readonly unasked: readonly string[]
  /** Remembers an answer that needs no wait. */
  note(record: StepRecord): void
}
