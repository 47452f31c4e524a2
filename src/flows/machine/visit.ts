import type { StepRecord } from '../../jobs/flow-memory.ts'
import type { FlowEnd, FlowEntry } from '../../engine/define/flow-entry.ts'
import { storedError } from '../../engine/run/settle.ts'
import { StepFailed } from '../shared/failures.ts'
import { endOf, moveOf, recordOf, startOf } from '../shared/records.ts'
import type { homeOf } from '../shared/start.ts'
import type { MachineCode } from './code.ts'
import type { StepText } from './step-text.ts'

/** One run of one step of a machine. */
export interface Visit {
  readonly code: MachineCode
  readonly entry: FlowEntry
  readonly text: StepText
  /** The step's name in the history. */
  readonly name: string
  readonly home: ReturnType<typeof homeOf>
}

/** Fails the flow at once. */
export function failed(visit: Visit, error: Error, consumed: readonly number[]): FlowEnd {
  const { entry, name: step } = visit
  const { attempt } = entry.job
  entry.tell({ kind: 'failed', step, attempt, error })
  const stored = storedError(error)
  const then = endOf(null, new StepFailed({ step, attempt }, stored).toFlowError())
  return { kind: 'moved', move: moveOf({ steps: [ended(visit, 'failed', stored)], consumed, then }), error }
}

/** The record of a step that has ended. */
export function ended({ entry, name }: Visit, state: 'done' | 'failed', error: StepRecord['error'] = null): StepRecord {
  const { job, store } = entry
  return recordOf({ name, state, ...startOf(job), finishedUs: store.nowUs(), input: job.input, error })
}
