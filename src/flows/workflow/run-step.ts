import type { FlowMemory, StepRecord } from '../../jobs/flow-memory.ts'
import { toJsonText } from '../../base/json-value.ts'
import { asError } from '../../base/thrown.ts'
import type { FlowEnd, FlowEntry } from '../../engine/define/flow-entry.ts'
import { storedError } from '../../engine/run/settle.ts'
import { NonRetryable } from '../../jobs/handler-errors.ts'
import { isRateLimited } from '../../jobs/is-rate-limited.ts'
import { retryDelayUs } from '../../jobs/retry-policy.ts'
import { recordOf, startOf, waitOf } from '../shared/records.ts'
import { runStep } from '../shared/step-context.ts'
import type { StepWant } from './ask.ts'

/** The end of one run of a step that was granted. */
export type RanGranted =
  /** For good. `error`: why it failed; null: it has not. */
  | { readonly kind: 'ended'; readonly record: StepRecord; readonly error: Error | null }
  /** The entry ends by it, once all other steps have ended. */
  | { readonly kind: 'ending'; readonly end: FlowEnd }

/** The end of one run of a step. `retrying`: it is wanted again. */
export type Ran = RanGranted | { readonly kind: 'retrying'; readonly want: StepWant }

interface Around {
  readonly entry: FlowEntry
  readonly memory: FlowMemory
}

type Begun = Pick<StepRecord, 'attempt' | 'startedUs' | 'waitedUs' | 'waitedFor'>

/** The end of a step that cannot run, since its options or its limits are wrong. */
export function refused(
  { tell }: FlowEntry,
  name: string,
  error: Error,
): Extract<RanGranted, { kind: 'ended' }> & { readonly error: Error } {
  tell({ kind: 'failed', step: name, attempt: 0, error })
  return { kind: 'ended', record: recordOf({ name, state: 'failed', error: storedError(error) }), error }
}

/** Runs the step that this start was granted for. A failed attempt is one of its job. */
export async function runGranted(around: Around, name: string, want: StepWant): Promise<RanGranted> {
  const { job, tell } = around.entry
  const { attempt, maxAttempts } = job
  tell({ kind: 'started', step: name, attempt, waited: waitOf(job) })
  const ran = await run(around, name, want, startOf(job))
  if (ran.ok) return { kind: 'ended', record: ran.record, error: null }
  const { error } = ran
  if (isRateLimited(error) || !(error instanceof NonRetryable || attempt >= maxAttempts))
    return { kind: 'ending', end: failedAttempt(name, want, error) }
  tell({ kind: 'failed', step: name, attempt, error })
  return { kind: 'ended', record: ran.record, error }
}

/** Runs a step in the slot of the entry. A failed attempt makes it wait for the next one like any step. */
export async function runInPlace(around: Around, name: string, want: StepWant): Promise<Ran> {
  const { engine, store, tell } = around.entry
  tell({ kind: 'started', step: name, attempt: 1, waited: { waitedMs: 0, waitedFor: null } })
  const ran = await run(around, name, want, { attempt: 1, startedUs: store.nowUs(), waitedUs: 0, waitedFor: null })
  if (ran.ok) return { kind: 'ended', record: ran.record, error: null }
  const { error, record } = ran
  if (isRateLimited(error)) return { kind: 'ending', end: failedAttempt(name, want, error) }
  const { retry } = want.terms
  if (error instanceof NonRetryable || retry.attempts <= 1) {
    tell({ kind: 'failed', step: name, attempt: 1, error })
    return { kind: 'ended', record, error }
  }
  const delayUs = retryDelayUs(retry, 1, engine.random)
  tell({ kind: 'retrying', step: name, attempt: 1, error, delayMs: delayUs / 1000 })
  const retrying: StepRecord = { ...record, state: 'retrying', finishedUs: null, dueUs: store.nowUs() + delayUs }
  return { kind: 'retrying', want: { ...want, inPlace: false, attempt: 1, delayUs, retrying } }
}

type Run = { readonly ok: true; readonly record: StepRecord } | { readonly ok: false; error: Error; record: StepRecord }

async function run({ entry, memory }: Around, name: string, want: StepWant, begun: Begun): Promise<Run> {
  const { generation, key } = memory
  const terms = { step: name, attempt: begun.attempt, generation, flowKey: key, timeoutMs: want.timeoutMs }
  const outcome = await runStep(entry, terms, want.code)
  try {
    if (!outcome.ok) throw outcome.error
    const { value } = outcome
    const result = value === undefined ? null : toJsonText(value, `the result of step ${name}`)
    entry.tell({ kind: 'completed', step: name, attempt: begun.attempt })
    return { ok: true, record: recordOf({ name, state: 'done', ...begun, result }) }
  } catch (cause) {
    const error = asError(cause)
    return { ok: false, error, record: recordOf({ name, state: 'failed', ...begun, error: storedError(error) }) }
  }
}

function failedAttempt(step: string, { specs, terms }: StepWant, error: Error): FlowEnd {
  return { kind: 'failed', error, retry: terms.retry, uses: specs, step }
}
