/** The meaning of SQLite errors: which may pass, and how callers see them. */
import { SluiceError } from '../base/errors.ts'

const BUSY = 5
/** Busy, locked, no memory, read-only, interrupted, an I/O error, a full disk, no file to be opened, a lock that was missed: each may pass. */
const PASSING: ReadonlySet<number> = new Set([BUSY, 6, 7, 8, 9, 10, 13, 14, 15])

/** Whether another connection holds the wanted lock. */
export function isBusy(error: unknown): boolean {
  return codeOf(error) === BUSY
}

/** Wraps an error of SQLite as a store error. An error that a request threw stays as it is. */
export function wrapError(error: unknown, path: string): unknown {
  const code = codeOf(error)
  if (code === undefined) return error
  const message = `SQLite could not write to ${path}: ${textOf(error)}. The store kept nothing of this call. Check the disk and the file.`
  return new SluiceError('store.io', message, { cause: error, lasts: PASSING.has(code) ? 'passes' : undefined })
}

/** Describes an error of any kind. */
export function textOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause)
}

/** SQLite's primary result code. */
function codeOf(error: unknown): number | undefined {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number'
    ? error.errcode & 0xff
    : undefined
}
