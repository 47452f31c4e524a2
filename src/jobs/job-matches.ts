import { objectIn } from '../base/json-value.ts'
import { extraOf } from './job-extra.ts'
import type { JobError } from './job-error.ts'
import { inSmallLetters, type JobMatch } from './job-filter.ts'

/** The parts of a stored job that SQL cannot compare on every store: its JSON. */
export interface SearchedJob {
  readonly error: string | null
  readonly extra: string | null
  /** SQL has found the text outside of `extra`. */
  readonly hasText: boolean
}

/** Whether SQL alone cannot decide which jobs match: it finds candidates, and `matchesTexts` decides. */
export function looksIntoTexts({ tags, meta, text, error }: JobMatch): boolean {
  return tags !== undefined || meta !== undefined || text !== undefined || error !== undefined
}

/** Decides the fields of a filter that look into the JSON of a job. */
export function matchesTexts(match: JobMatch, job: SearchedJob): boolean {
  const { tags = [], meta = {} } = extraOf(job)
  if (match.tags && !match.tags.every((tag) => Array.isArray(tags) && tags.includes(tag))) return false
  if (match.meta && !match.meta.every(([name, value]) => hasValue(meta, name, value))) return false
  if (match.error !== undefined && !hasError(job.error, match.error)) return false
  return match.text === undefined || job.hasText || hasText([tags, meta], match.text)
}

function hasValue(meta: Readonly<Record<string, unknown>>, name: string, value: string): boolean {
  if (!Object.hasOwn(meta, name)) return false
  const found = meta[name]
  return (found === null || typeof found !== 'object') && String(found) === value
}

function hasError(stored: string | null, wanted: string): boolean {
  // A person may have changed the stored error.
  const { code, message }: { readonly code?: unknown; readonly message?: unknown } = objectIn<JobError>(stored)
  const is = (value: unknown, test: (text: string) => boolean): boolean =>
    typeof value === 'string' && test(inSmallLetters(value))
  return is(code, (text) => text === wanted) || is(message, (text) => text.includes(wanted))
}

function hasText(notes: readonly unknown[], wanted: string): boolean {
  const texts = notes.map((each) => inSmallLetters(JSON.stringify(each)))
  return formsInJson(wanted).some((form) => texts.some((text) => text.includes(form)))
}

/** A text as it may stand in JSON: inside a string, where quotes are escaped, and as a piece of JSON itself. */
export function formsInJson(text: string): readonly string[] {
  const escaped = inSmallLetters(JSON.stringify(text).slice(1, -1))
  return escaped === text ? [text] : [escaped, text]
}
