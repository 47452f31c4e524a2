import { plainField } from '../base/logger.ts'
import { beginningOf } from '../base/text.ts'

/** The levels of a line, the least urgent first. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const
/** The level of a line. */
export type LogLevel = (typeof LOG_LEVELS)[number]

/** One line that a run has logged, as it is kept with its job. */
export interface JobLogLine {
  /** Wall clock, epoch ms. */
  readonly atMs: number
  readonly level: LogLevel
  readonly attempt: number
  /** At most 2,000 characters. */
  readonly message: string
  /** As JSON; absent: the line had none. */
  readonly fields?: Readonly<Record<string, unknown>>
}

/** A job keeps so many lines, and so much text: its last ones. */
export const LINES_AT_MOST = 100
const CHARACTERS_AT_MOST = 65_536
const LONGEST_MESSAGE = 2_000
const LONGEST_FIELDS = 8_000

/** Makes a line of a run. It never throws: fields that JSON cannot hold are named. @param given as loggers take it */
export function logLine(
  line: Pick<JobLogLine, 'atMs' | 'level' | 'attempt'>,
  given: object | string,
  text = '',
): JobLogLine {
  const message = beginningOf(typeof given === 'string' ? given : text, LONGEST_MESSAGE)
  const fields = typeof given === 'string' ? undefined : jsonOf(given)
  return { ...line, message, ...(fields && { fields }) }
}

/** The lines that a job keeps of those it has and new ones. */
export function withLines(kept: readonly JobLogLine[], added: readonly JobLogLine[]): readonly JobLogLine[] {
  const lines = [...kept, ...added].slice(-LINES_AT_MOST)
  let characters = 0
  let first = lines.length
  for (; first > 0; first--) {
    characters += JSON.stringify(lines[first - 1]).length + 1
    if (characters > CHARACTERS_AT_MOST) break
  }
  return lines.slice(first)
}

/** The stored lines of a job; what is unreadable is left out. */
export function linesIn(text: string): readonly JobLogLine[] {
  try {
    const lines = JSON.parse(text) as unknown
    return Array.isArray(lines) ? lines.filter(isLine) : []
  } catch {
    return []
  }
}

function isLine(line: unknown): line is JobLogLine {
  if (!isRecord(line)) return false
  const { atMs, level, attempt, message } = line
  return (
    Number.isFinite(atMs) &&
    Number.isInteger(attempt) &&
    typeof message === 'string' &&
    LOG_LEVELS.some((each) => each === level)
  )
}

function jsonOf(fields: object): Readonly<Record<string, unknown>> | undefined {
  try {
    const text = JSON.stringify(fields, plainField)
    if (text.length > LONGEST_FIELDS) return { omitted: `fields of ${text.length} characters` }
    const read = JSON.parse(text) as unknown
    if (!isRecord(read)) return { value: read }
    return Object.keys(read).length === 0 ? undefined : read
  } catch {
    return { omitted: 'fields that are no JSON' }
  }
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
