import { SluiceError } from '../../base/errors.ts'
import { beginningOf } from '../../base/text.ts'
import type { FailedStep, JobError } from '../../jobs/job-error.ts'
import { storedError } from '../../engine/run/settle.ts'

/** Thrown in a body by a step that has used up its attempts. */
export class StepFailed extends SluiceError {
  readonly step: string
  /** The attempt that failed; 0: the step could not begin. */
  readonly attempt: number
  /** The stored code of its last error. */
  readonly reason: string
  readonly #stored: JobError

  constructor({ step, attempt }: FailedStep, stored: JobError) {
    const at = attempt > 0 ? ` in attempt ${attempt}` : ''
    super('step.failed', `The step ${JSON.stringify(beginningOf(step, 100))} failed${at}: ${stored.message}`)
    this.name = 'StepFailed'
    this.step = step
    this.attempt = attempt
    this.reason = stored.code
    this.#stored = stored
  }

  /** The error that a flow fails with: it keeps the code of the step's error. */
  toFlowError(): JobError {
    const { attempt, message, reason: code, step } = this
    return { code, message, details: { ...this.#stored.details, step, attempt } }
  }
}

/** The error that a flow fails with: that of a step names it. */
export function flowError(error: Error): JobError {
  return error instanceof StepFailed ? error.toFlowError() : storedError(error)
}
