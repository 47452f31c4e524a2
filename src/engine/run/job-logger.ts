import type { Logger } from '../../base/logger.ts'
import type { GrantedJob } from '../../jobs/job.ts'

/** The fields that every line of a run has. */
interface RunFields {
  readonly job: string
  readonly task: string
  readonly attempt: number
}

/** The fields of a job in a line of the log. */
export function logged({ id, task, attempt }: Pick<GrantedJob, 'id' | 'task' | 'attempt'>): RunFields {
  return { job: id, task, attempt }
}

/**
 * A logger whose lines name a run. It is the child of the given logger if that has children, as pino's does; else the
 * fields stand before those of each line.
 */
export function runLogger(logger: Logger, fields: RunFields): Logger {
  const { child } = logger as { readonly child?: unknown }
  if (typeof child === 'function') return child.call(logger, fields) as Logger
  const at =
    (level: keyof Logger) =>
    (own: object | string, message?: string): void =>
      // Loggers of this kind also take a message alone.
      typeof own === 'string' ? logger[level](fields, own) : logger[level]({ ...fields, ...own }, message ?? '')
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
