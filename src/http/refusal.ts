import { SluiceError } from '../base/errors.ts'
import { brief } from '../base/options.ts'

/** The optional parts of a refusal. */
export interface RefusalDetails {
  readonly retryable?: boolean
  readonly type?: string
  readonly details?: Readonly<Record<string, unknown>>
  readonly hint?: string
  readonly headers?: Readonly<Record<string, string>>
  /** For the log alone. */
  readonly cause?: unknown
}

/** A refused request: its status, and the code and message of the Open Job Spec's error format. */
export class Refusal extends Error {
  readonly status: number
  readonly code: string
  readonly details: RefusalDetails

  constructor(status: number, code: string, message: string, { cause, ...details }: RefusalDetails = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.status = status
    this.code = code
    this.details = details
  }

  /** The error in the form of the Open Job Spec's HTTP binding. */
  body(requestId: string): { error: Record<string, unknown> } {
    const { retryable = false, type, details, hint } = this.details
    return {
      error: {
        code: this.code,
        message: this.message,
        retryable,
        ...(type !== undefined && { type }),
        ...(details !== undefined && { details }),
        hint: hint ?? HINTS[this.code] ?? 'Correct the request as the message says, then send it again.',
        docs_url: `https://openjobspec.org/docs/errors#${this.code.toLowerCase()}`,
        request_id: requestId,
      },
    }
  }
}

const HINTS: Readonly<Record<string, string>> = {
  not_found: 'Check the id. Ended jobs and workflows are deleted after their retention.',
  conflict: 'Read the job again: its state does not allow this.',
  duplicate: 'Use the existing job, or send the request without this id or unique key.',
  invalid_payload: 'Send a JSON body with the content type application/openjobspec+json.',
  QUEUE_FULL: 'Wait until workers have taken jobs of the queue, then try again.',
  rate_limited: 'Wait as long as Retry-After says, then try again.',
  backend_error: 'Try again. If it fails again, search the log of the server for this request id.',
  unauthenticated: 'Send the header Authorization: Bearer with a token of the server.',
  permission_denied: 'Use a token whose scopes and queues allow this.',
}

/** Status, code and type of the engine's errors that a request can cause. */
const OF_ENGINE: Readonly<Record<string, readonly [number, string, string?]>> = {
  'payload.too_large': [413, 'x_payload_too_large'],
  'input.invalid': [400, 'schema_validation'],
  'policy.invalid': [422, 'invalid_request', 'validation_error'],
  'schedule.invalid': [400, 'invalid_request', 'validation_error'],
  'duration.invalid': [422, 'invalid_request', 'validation_error'],
  'retry.invalid': [422, 'invalid_request', 'validation_error'],
  'unique.invalid': [422, 'invalid_request', 'validation_error'],
  'option.invalid': [422, 'invalid_request', 'validation_error'],
  'priority.invalid': [422, 'invalid_request', 'validation_error'],
  'task.name.invalid': [422, 'invalid_request', 'validation_error'],
  'queue.invalid': [422, 'invalid_request', 'validation_error'],
  'fairness.invalid': [422, 'invalid_request', 'validation_error'],
  'limit.key.invalid': [422, 'invalid_request', 'validation_error'],
  'limit.key.missing': [422, 'invalid_request', 'validation_error'],
  'limit.key.threw': [422, 'invalid_request', 'validation_error'],
  'limit.weight.invalid': [422, 'invalid_request', 'validation_error'],
  'limit.weight.threw': [422, 'invalid_request', 'validation_error'],
  'limit.weight.above_burst': [422, 'invalid_request', 'validation_error'],
  'flow.invalid': [422, 'invalid_request', 'validation_error'],
  'flow.not_found': [404, 'not_found'],
  'flow.conflict': [409, 'conflict'],
  'flow.ended': [409, 'conflict'],
  'flow.inbox_full': [422, 'x_inbox_full', 'validation_error'],
  'flow.step_unknown': [422, 'invalid_request', 'validation_error'],
  'delay.invalid': [422, 'invalid_request', 'validation_error'],
  'limit.unknown': [404, 'not_found'],
  'job.not_found': [404, 'not_found'],
  'engine.stopped': [503, 'backend_error'],
}

const UNREACHED = 'The server cannot reach its store.'

/**
 * Turns an error into a public refusal: a refusal stays, an engine's error is known by its code, any other gives no
 * reason. If a request only reads, a wrong value stands in its query.
 */
export function refusalOf(error: unknown, reads = false): Refusal {
  if (error instanceof Refusal) return error
  // Its message is for the operator of the server.
  if (error instanceof SluiceError && (error.code === 'store.io' || error.code === 'store.busy'))
    return new Refusal(503, 'backend_error', UNREACHED, { retryable: true, headers: { 'Retry-After': '1' } })
  const known = error instanceof SluiceError ? OF_ENGINE[error.code] : undefined
  if (!known || !(error instanceof Error))
    return new Refusal(500, 'backend_error', 'The request failed in the server.', { retryable: true })
  const [status, code, type] = known
  // The codes of the spec are few.
  const details = { reason: (error as SluiceError).code }
  if (reads && status === 422) return invalid(error.message, { details })
  return new Refusal(status, code, error.message, {
    retryable: status === 503,
    details,
    ...(type !== undefined && { type }),
  })
}

/** Makes the refusal of something that does not exist. */
export function notFound(kind: string, id: string): Refusal {
  return new Refusal(404, 'not_found', `The ${kind} ${brief(id)} does not exist.`, {
    details: { resource_type: kind, resource_id: id },
  })
}

/**
 * Makes the refusal of a malformed request: a member that is missing, unknown, misplaced or of the wrong form. It does
 * not depend on what the server holds.
 */
export function invalid(message: string, details: RefusalDetails = {}): Refusal {
  return new Refusal(400, 'invalid_request', message, details)
}

/** Makes the refusal of a cursor that no page of the list has returned. */
export function invalidCursor(): Refusal {
  return invalid('cursor is invalid. Expected that of an earlier page of this list; omit it to start over.')
}

/**
 * Makes the refusal of a well-formed value that cannot be served: a rule of the engine, another member, the token or the
 * store stands against it.
 */
export function unprocessable(message: string): Refusal {
  return new Refusal(422, 'invalid_request', message, { type: 'validation_error' })
}
