import { SluiceError } from '../../base/errors.ts'
import { show } from '../../base/options.ts'
import { messageOf } from '../../base/thrown.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { Key } from '../../policy/limits/key-path.ts'
import { isPath, partitionKey, readPath } from '../../policy/limits/partition-key.ts'
import { MAX_SHARE } from '../../policy/admission/turn.ts'

/** The turns of a task's jobs, or of one call instead. */
export interface Fairness {
  readonly fairKey: Key | ((input: never) => Key | null | undefined) | { readonly path: string } | null
  readonly share: number | ((input: never) => number) | undefined
}

/** Checks a task's fairness options. @throws {SluiceError} `fairness.invalid` */
export function fairnessOf(
  fairKey: ((input: never) => Key | null | undefined) | string | undefined,
  share: number | ((input: never) => number) | undefined,
  task: string,
): Fairness {
  if (share !== undefined && typeof share !== 'function') checkShare(share, task)
  if (fairKey === undefined || typeof fairKey === 'function') return { fairKey: fairKey ?? null, share }
  if (isPath(fairKey)) return { fairKey: { path: fairKey }, share }
  throw invalid(task, `fairKey is invalid: ${show(fairKey)}. Expected a function of the input, or a path like 'a.b'.`)
}

/**
 * The fair key and the share of one job. The call's options replace the task's.
 * @throws {SluiceError} `fairness.invalid`, also for a function that threw
 */
export function fairnessOfJob(
  own: Fairness,
  call: { readonly fairKey?: Key | null; readonly share?: number },
  input: unknown,
  task: string,
): Pick<NewJob, 'fairKey' | 'share'> {
  const source = call.fairKey === undefined ? own.fairKey : call.fairKey
  const key = keyOf(source, input, task)
  if (!isKey(key))
    throw invalid(task, `its fair key is invalid: ${show(key)}. Expected a string, a finite number, or null for none.`)
  const found = partitionKey(key, 'unlimited', `fairKey of task ${task}`)
  const share = shareOf(call.share ?? own.share ?? 1, input, task)
  return { ...(found.kind === 'key' && { fairKey: found.key }), ...(share !== 1 && { share }) }
}

function keyOf(source: Fairness['fairKey'], input: unknown, task: string): unknown {
  if (typeof source === 'function') return called(source, input, 'fairKey', task)
  return typeof source === 'object' && source !== null && 'path' in source ? readPath(input, source.path) : source
}

function isKey(value: unknown): value is Key | null | undefined {
  return value === null || value === undefined || typeof value === 'string' || Number.isFinite(value)
}

function shareOf(source: number | ((input: never) => number), input: unknown, task: string): number {
  return checkShare(typeof source === 'function' ? called(source, input, 'share', task) : source, task)
}

function called(fn: (input: never) => unknown, input: unknown, what: string, task: string): unknown {
  try {
    return fn(input as never)
  } catch (cause) {
    throw new SluiceError('fairness.invalid', `task ${task}: its ${what} function threw: ${messageOf(cause)}.`, {
      cause,
    })
  }
}

function checkShare(share: unknown, task: string): number {
  if (typeof share === 'number' && Number.isInteger(share) && share >= 1 && share <= MAX_SHARE) return share
  throw invalid(task, `share is invalid: ${show(share)}. Expected a whole number from 1 to ${MAX_SHARE}.`)
}

function invalid(task: string, why: string): SluiceError {
  return new SluiceError('fairness.invalid', `task ${task}: ${why}`)
}
