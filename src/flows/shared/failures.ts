import { SluiceError } from '../../base/errors.ts'
import { beginningOf } from '../../base/text.ts'
import type { JobError } from '../../jobs/job-error.ts'
import { storedError } from '../../engine/run/settle.ts'

/** Thrown in a body by a step that has used up its attempts. */
export class StepFailed extends SluiceError {
  readonly step: string
  /** The stored code of its last error. */
  readonly reason: string

  constructor(step: string, { code, message }: JobError) {
    super('step.failed', `The step ${JSON.stringify(beginningOf(step, 100))} failed: ${message}`)
    this.name = 'StepFailed'
    this.step = step
    this.reason = code
  }
}

/** The error that a flow fails with: that of a step keeps its own code. */
export function flowError(error: Error): JobError {
  return error instanceof StepFailed ? { code: error.reason, message: error.message } : storedError(error)
}
