import { toJsonText } from '../../base/json-value.ts'
import { asError } from '../../base/thrown.ts'
import { storedError } from '../../engine/run/settle.ts'
import { NonRetryable } from '../../jobs/handler-errors.ts'
import { isRateLimited } from '../../jobs/is-rate-limited.ts'
import { retryDelayUs } from '../../jobs/retry-policy.ts'
import type { NewJob } from '../../jobs/job.ts'
import { moveOf } from '../shared/records.ts'
import { runStep } from '../shared/step-context.ts'
import type { StepForm } from './form.ts'
import type { StepCode } from './model.ts'
import type { RunContext } from './run-context.ts'
import type { SeenValues } from './seen.ts'
import { retryOf } from './terms.ts'

/**
 * Whether a step can run in the slot of the entry: nothing else is to begin or has yet to end, and it needs no budget. If
 * a run of the entry was lost, a step that ran in its place may have been the cause: then each has a job of its own.
 */
export function mayRunHere({ isAlone, entry }: RunContext, step: StepForm, job: NewJob): boolean {
  return (
    isAlone &&
    entry.job.attempt === 1 &&
    step.each === undefined &&
    step.code === true &&
    job.uses.length === 0 &&
    job.queue === entry.job.queue
  )
}

/**
 * Runs a step in the slot of the entry, and writes its result before anything else begins. An attempt that fails makes
 * it a side job, which has the others.
 */
export async function runHere(
  run: RunContext,
  name: string,
  step: StepForm,
  code: NonNullable<StepCode['run']>,
  seen: SeenValues,
  job: NewJob,
): Promise<void> {
  const { entry, progress } = run
  const { tell } = entry
  const startedUs = entry.store.nowUs()
  tell({ kind: 'started', step: name, attempt: 1, waited: { waitedMs: 0, waitedFor: null } })
  const { generation, key } = progress.memory
  const terms = { step: name, attempt: 1, generation, flowKey: key, timeoutMs: step.timeout ?? null }
  const ran = await runStep(entry, terms, (context) => code(seen as never, context))
  const begun = { name, attempt: 1, startedUs }
  const result = ran.ok ? resultOf(name, ran.value) : ran.error
  progress.nowUs = Math.max(progress.nowUs, entry.store.nowUs())
  const finishedUs = progress.nowUs
  if (typeof result === 'string') {
    progress.put({ ...begun, state: 'done', result, finishedUs })
    tell({ kind: 'completed', step: name, attempt: 1 })
    return write(run)
  }
  if (entry.signal.aborted) throw new Aborted(result)
  const retry = retryOf(step.retry)
  // A refusal closes no budget here, and does not count as an attempt.
  const attempt = isRateLimited(result) ? 0 : 1
  if (result instanceof NonRetryable || attempt >= retry.attempts) {
    progress.put({ ...begun, state: 'failed', error: storedError(result), finishedUs })
    tell({ kind: 'failed', step: name, attempt, error: result })
    return write(run)
  }
  const delayUs = retryDelayUs(retry, 1, entry.engine.random)
  tell({ kind: 'retrying', step: name, attempt: 1, error: result, delayMs: delayUs / 1000 })
  progress.put({ name, state: 'open', startedUs })
  progress.spawned.push({ job, step: name, item: null, attempt, delayUs })
}

/** Thrown through the entry: its run was aborted, and ends for that reason. */
export class Aborted extends Error {
  constructor(cause: Error) {
    super(cause.message, { cause })
  }
}

function resultOf(name: string, value: unknown): string | Error {
  try {
    return toJsonText(value, `the result of step ${name}`)
  } catch (error) {
    return asError(error)
  }
}

/** Writes what has ended, unless nothing begins behind it: then it travels with the entry's last move. */
async function write(run: RunContext): Promise<void> {
  const { entry, progress } = run
  if (progress.ready.length === 0) return
  const { changed, consumed } = progress
  const steps = [...changed.values()]
  run.ended = await entry.stay(moveOf({ steps, consumed: [...consumed], then: { kind: 'stay' } }))
  changed.clear()
  consumed.splice(0)
}
