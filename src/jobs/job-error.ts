import type { JsonValue } from '../base/json-value.ts'

/** Why a run failed or a job was discarded, as it is stored. */
export interface JobError {
  readonly code: string
  readonly message: string
  /** The delay of the next attempt after this failure, in ms. */
  readonly retryDelayMs?: number
  /** The handler's own kind of failure. */
  readonly type?: string
  readonly details?: { readonly [name: string]: JsonValue }
}

/** A step that failed, and its attempt: 0 if it failed before the first one. */
export interface FailedStep {
  readonly step: string
  readonly attempt: number
}
