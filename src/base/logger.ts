import { messageOf } from './thrown.ts'

/** Receives Sluice's reports that need no answer: any pino-like object. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

const ignore = (): void => undefined

/** A logger that drops everything. */
export const silentLogger: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore }

/** A logger that writes warnings and errors to stderr, one line each, and drops the rest. */
export const consoleLogger: Logger = createLineLogger((line) => {
  process.stderr.write(line)
})

/**
 * Creates a logger that writes each warning and each error as one line: level, message, then the fields as JSON. It
 * never throws for fields that JSON cannot hold.
 *
 * @param write gets the line with its line feed.
 */
export function createLineLogger(write: (line: string) => void): Logger {
  const at =
    (level: string) =>
    (fields: object, message: string): void =>
      write(`sluice ${level}: ${oneLine(message)}${fieldsText(fields)}\n`)
  return { debug: ignore, info: ignore, warn: at('warn'), error: at('error') }
}

/** Wraps a logger so that it never throws. A failed log call must not undo the work that it reports. */
export function unfailingLogger(logger: Logger): Logger {
  const at =
    (level: keyof Logger) =>
    (fields: object, message: string): void => {
      try {
        logger[level](fields, message)
      } catch {
        // A failing logger leaves no place to report to.
      }
    }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function oneLine(text: string): string {
  // Control characters from a handler's error could forge log lines or steer a terminal.
  return text.replaceAll(/\p{Cc}+/gu, ' ')
}

function fieldsText(fields: object): string {
  try {
    const text = JSON.stringify(fields, plainField)
    return text === '{}' ? '' : ` ${oneLine(text)}`
  } catch (error) {
    return ` (fields cannot be shown: ${oneLine(messageOf(error))})`
  }
}

/** A replacer of `JSON.stringify`: errors and large integers in the fields of a line. */
export function plainField(_key: string, value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString()
  if (!(value instanceof Error)) return value
  const { name, message, cause } = value
  return { name, ...('code' in value ? { code: value.code } : {}), message, ...(cause === undefined ? {} : { cause }) }
}
