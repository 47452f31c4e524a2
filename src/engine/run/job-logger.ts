import type { Logger } from '../../base/logger.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { FailedStep } from '../../jobs/job-error.ts'

/** The fields that every line of a run has. */
interface RunFields {
  readonly job: string
  readonly task: string
  /** Of the step, if there is one. */
  readonly attempt: number
  /** The id of its flow. */
  readonly flow?: string
  readonly step?: string
  /** The place of an item of a map. */
  readonly item?: number
}

/** The fields of a job in a line of the log. */
export function logged({ id, task, attempt }: Pick<GrantedJob, 'id' | 'task' | 'attempt'>): RunFields {
  return { job: id, task, attempt }
}

/** The fields of a run in a line of the log. @param at the step that the line is about; absent: the one that it began for */
export function loggedRun(job: GrantedJob, at?: FailedStep | null): RunFields {
  const { flow } = job
  if (!flow) return logged(job)
  const { kind, item = null, step = null } = flow.workflow ?? {}
  // A machine marks steps that it has waited for.
  const granted =
    step === null ? null : { step: kind === 'machine' ? step.replace(/\*$/, '') : step, attempt: job.attempt }
  return { ...logged(job), flow: flow.id, ...(at ?? granted), ...(item !== null && { item }) }
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
