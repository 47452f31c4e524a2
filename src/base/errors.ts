import type { FLOW_ERRORS } from './flow-errors.ts'

/** The meaning of an error code and its remedy, in one line each. */
export interface ErrorEntry {
  readonly meaning: string
  readonly remedy: string
}

/** The errors of limits, jobs and stores. */
export const REGISTRY = {
  'duration.invalid': {
    meaning: 'A duration cannot be read, is negative or not finite, has no fixed length, or is longer than 100 years.',
    remedy: "Give '500ms', '5s', '1m', '2h', '3d', an ISO 8601 duration such as 'PT1M', or a number of milliseconds.",
  },
  'node.unsupported': {
    meaning: 'This Node is older than the one that Sluice needs.',
    remedy: 'Install Node 22.16 or newer.',
  },
  'package.missing': {
    meaning: 'A door, a store or a backend needs a package that is not installed.',
    remedy: 'Install what the message names, beside sluice. A bundle does not bring it along either.',
  },
  'policy.invalid': {
    meaning: "A limit's policy is of an unknown kind, or one of its values is out of range.",
    remedy: 'Correct the value that the message names.',
  },
  'limit.unknown': {
    meaning: 'A limit was named that no engine has defined.',
    remedy: 'Define it with limit(name, policy), and list it in the option limits, in a task, or in a call.',
  },
  'limit.conflict': {
    meaning: 'Two definitions of one limit name differ within one engine.',
    remedy: 'Define the limit once and import it where it is used, or rename one of the two.',
  },
  'limit.key.invalid': {
    meaning: 'A partition key is neither a string nor a finite number.',
    remedy: 'Return a string or a number from the key function, or null if the limit does not apply.',
  },
  'limit.key.missing': {
    meaning: 'A limit with keys found no key: the function returned undefined, or the input lacks the path.',
    remedy:
      "Correct the function or the path. Return null if the limit does not apply, or set onMissingKey to 'unlimited', 'fail' or 'shared'.",
  },
  'limit.key.threw': {
    meaning: 'The key function of a limit threw for this input. The job was not enqueued.',
    remedy: 'Correct the key function. Its error is the cause of this one.',
  },
  'limit.weight.invalid': {
    meaning: 'A weight is not a whole number of at least 1.',
    remedy: 'Give a whole number of units, 1 or more.',
  },
  'limit.weight.threw': {
    meaning: 'The weight function of a limit threw for this input. The job was not enqueued.',
    remedy: 'Correct the weight function. Its error is the cause of this one.',
  },
  'limit.weight.above_burst': {
    meaning: 'A weight is more than the limit can ever admit at once.',
    remedy: 'Lower the weight, split the job, or raise the burst (or max) of the limit.',
  },
  'fairness.invalid': {
    meaning: 'A fair key or a share is invalid, or its function threw. The job was not enqueued.',
    remedy:
      'Give a fair key that is a string, a finite number or null, and a share that is a whole number from 1 to 100.',
  },
  'limit.rejected': {
    meaning:
      "The job could not start in time: its limit was used up, and 'drop' or maxWait ended it. It used no budget.",
    remedy: "Wait for the budget ('wait'), allow a longer maxWait, or handle the loss in onError.",
  },
  'limiter.full': {
    meaning: 'As many calls wait for the limiter as it allows. The call took no budget.',
    remedy: 'Slow the callers down, let them wait for less long, or raise maxWaiting.',
  },
  'limiter.closed': {
    meaning: 'The limiter has been closed, and takes no more calls.',
    remedy: 'Create a new limiter.',
  },
  'budget.unknown': {
    meaning: 'A limit names a backend that the engine does not have. Its jobs could never start there.',
    remedy: 'Add the backend to the option budgets of the engine, or correct the name.',
  },
  'limiter.backend_down': {
    meaning: 'The backend of the limiter cannot be reached, did not answer in time, or refuses.',
    remedy: 'See the cause, and check the address of the backend. Calls go on once it is back.',
  },
  'limiter.url.invalid': {
    meaning: 'The address of the backend of a limiter cannot be read, or its kind is not known.',
    remedy:
      "Give 'memory:', 'sqlite:./file.db', 'postgres://host/database', 'redis://host', 'rediss://host', 'nats://host', or a backend.",
  },
  'task.unknown': {
    meaning: 'A call names a task that this engine does not list.',
    remedy: 'List the task in the option tasks of the engine.',
  },
  'task.conflict': {
    meaning: 'Two different tasks of one engine have the same name.',
    remedy: 'Rename one of them.',
  },
  'task.no_engine': {
    meaning: 'task.enqueue was called, but no open engine lists the task.',
    remedy: 'Create a Sluice that lists the task first, or call sluice.enqueue(task, input).',
  },
  'task.ambiguous': {
    meaning: 'task.enqueue was called, but several open engines list the task.',
    remedy: 'Name the engine: sluice.enqueue(task, input).',
  },
  'task.name.invalid': {
    meaning: 'A task name does not follow the pattern of job types.',
    remedy: "Join words by dots, each a small letter and then small letters, digits, '-' or '_': 'tenant.sync'.",
  },
  'input.invalid': {
    meaning: "The input does not match the task's schema.",
    remedy: 'Correct the fields that the message lists, or the schema.',
  },
  'payload.unserialisable': {
    meaning: 'A value cannot be written as JSON.',
    remedy: 'Pass plain data: no BigInt, no cycles, no function in place of a value.',
  },
  'payload.too_large': {
    meaning: 'A value, as JSON text in UTF-8, is larger than the bound in the message.',
    remedy: 'Store the data elsewhere and pass a reference to it.',
  },
  'priority.invalid': {
    meaning: 'A priority is not a whole number from -100 to 100.',
    remedy: 'Give a whole number in that range; higher goes first.',
  },
  'delay.invalid': {
    meaning: 'A delay, runAt or expiresAt is not a usable time, or delay and runAt were both given.',
    remedy: 'Give one of delay (a duration) and runAt (a valid Date).',
  },
  'queue.invalid': {
    meaning: 'A queue name or a setting of a queue is not valid.',
    remedy: 'Correct what the message names.',
  },
  'queue.unknown': {
    meaning: 'No queue of that name is in the store.',
    remedy: 'Correct the name; sluice queues lists all queues.',
  },
  'queue.drain.timeout': {
    meaning: 'A queue still had jobs that wait or run when the time for queues.drain was over.',
    remedy: 'Wait longer. A paused queue, or one without a live worker, does not become empty.',
  },
  'unique.conflict': {
    meaning: "A job with the same unique key exists already, and onConflict is 'reject'.",
    remedy: "Wait for the earlier job, or choose 'ignore', 'update' or 'replace'.",
  },
  'unique.invalid': {
    meaning:
      'A unique option is not valid: the key is empty or not a string, its function threw, or a setting is unknown.',
    remedy: 'Correct what the message names.',
  },
  'retry.invalid': {
    meaning: 'A retry option is out of range or unknown.',
    remedy: 'Correct the option that the message names.',
  },
  'option.invalid': {
    meaning: 'An option is out of range, unknown, or contradicts another.',
    remedy: 'Correct the option that the message names.',
  },
  'job.not_found': {
    meaning: 'The store has no job with this id: it never existed, or its retention is over.',
    remedy: 'Check the id and the store; lengthen retention to keep finished jobs longer.',
  },
  'job.discarded': {
    meaning: 'The awaited job was discarded: its attempts are used up, or its error allows no retry.',
    remedy: 'See the cause for the last error; sluice.jobs.retry(id) runs it again.',
  },
  'job.cancelled': {
    meaning: 'The awaited job was cancelled.',
    remedy: 'Nothing, if that was intended; otherwise enqueue it again.',
  },
  'job.not_waiting': {
    meaning: 'A job that was to start at another time does not wait for a time or for its turn.',
    remedy: 'Look at its state with sluice jobs <id>. A discarded job can be retried.',
  },
  'job.result.timeout': {
    meaning: 'The job did not finish within the timeout given to result(). The job itself continues.',
    remedy: 'Wait longer, or ask again later by the id of the job.',
  },
  'drain.timeout': {
    meaning: 'Jobs remained when drain() had advanced the manual clock by its maximum, or when no timer remained.',
    remedy: 'Check why the job in the message waits, or allow a longer within.',
  },
  'job.expired': {
    meaning: 'A job had not started when its expiresAt passed, and was discarded.',
    remedy: 'Give it more time, or raise the limits it waits for. jobs.explain shows why such a job waits.',
  },
  'job.unreadable': {
    meaning: 'The stored data of a job cannot be read. The job was discarded, since it would have blocked others.',
    remedy: 'Check its row in the store, and the program that wrote it. Then enqueue the work again.',
  },
  'job.timeout': {
    meaning: "One attempt ran longer than the task's timeout and was aborted.",
    remedy: 'Raise timeout, or make the handler faster and let it obey ctx.signal.',
  },
  'lease.lost': {
    meaning: 'The lease of a run ended before it settled: its worker died or stalled. The late outcome is not written.',
    remedy: 'Check that the process runs, and that no handler blocks the event loop for longer than the lease.',
  },
  'engine.stopped': {
    meaning: 'The engine has been stopped, or is stopping, and takes no more work.',
    remedy: 'Create a new Sluice.',
  },
  'engine.started': {
    meaning: 'The engine is already running, and this call must come before start.',
    remedy: 'Make the call before start(), and call start() once.',
  },
  'store.url.invalid': {
    meaning: 'The address of the store cannot be read, or its kind is not known.',
    remedy: "Give 'sqlite:./path/to/file.db', 'sqlite::memory:' or 'postgres://user@host/database'.",
  },
  'store.version': {
    meaning: 'A newer version of Sluice wrote the store; or an older one did, and this command only reads.',
    remedy: 'Upgrade this process; or let an engine of this version open the store once, which upgrades it.',
  },
  'store.missing': {
    meaning: 'The address leads to no store of Sluice: the file is missing, or has other content.',
    remedy: 'Check the address (--store, SLUICE_STORE), or start the engine that makes the store.',
  },
  'store.busy': {
    meaning: 'The store stayed locked by another process for longer than the time allowed.',
    remedy: 'Find what holds the lock (a long transaction, a backup) and try again.',
  },
  'store.io': {
    meaning: 'The store could not be read or written: disk full, no permission, damaged file, or connection lost.',
    remedy: 'See the cause. Work that was acknowledged before is safe.',
  },
  'store.notify.lost': {
    meaning: 'A warning: processes on PostgreSQL do not hear of each other at once, since a pooler drops LISTEN.',
    remedy: "Write ?notify=false in the URL of the store, use the pooler's session mode, or connect to the server.",
  },
  'schedule.invalid': {
    meaning: 'A schedule is not valid: its cron expression, time zone or one of its options.',
    remedy: 'Correct what the message names.',
  },
  'schedule.unknown': {
    meaning: 'No schedule of that name is registered in the store.',
    remedy: 'List the names with sluice schedules.',
  },
}

/** The errors of handlers, the server and the command line. */
export const OF_PROCESSES = {
  'handler.failed': {
    meaning: "The task's handler threw or rejected.",
    remedy: 'See the cause; the job is retried as its retry policy says.',
  },
  'handler.nonretryable': {
    meaning: "The task's handler threw NonRetryable: the job is discarded without another attempt.",
    remedy: 'Correct the input or the handler, then enqueue the job again.',
  },
  'server.listen': {
    meaning:
      'The server cannot listen on its host and port: the port is in use or reserved, or the host is not an address of this machine.',
    remedy: 'Give another --port or --host, or stop the process that listens there.',
  },
  'cli.usage': {
    meaning: 'The command line was called with an unknown command or a wrong option.',
    remedy: 'See sluice --help.',
  },
  'dashboard.missing': {
    meaning: 'The page of the dashboard was not built.',
    remedy: 'Run `npm run build` in the repository. A published package holds the page.',
  },
  'demo.broken': {
    meaning: 'The demo broke a promise, such as a call that the server refused.',
    remedy: 'Report it together with the summary that the demo printed.',
  },
}

/** A stable error code. Programs branch on it, never on a message. */
export type ErrorCode = keyof typeof REGISTRY | keyof typeof FLOW_ERRORS | keyof typeof OF_PROCESSES

/**
 * How long a store error lasts. `passes`: the same call may succeed later. `final`: every later call fails too, until
 * the process opens the store again.
 */
export type Lasts = 'passes' | 'final'

/** An error of Sluice. `code` identifies the problem, `message` describes it, `cause` is the underlying error. */
export class SluiceError extends Error {
  readonly code: ErrorCode
  /**
   * Set on store errors (`store.busy`, `store.io`) of known duration. Otherwise the call or the store needs a change.
   */
  readonly lasts?: Lasts

  constructor(
    code: ErrorCode,
    message: string,
    options: { readonly cause?: unknown; readonly lasts?: Lasts | undefined } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.name = 'SluiceError'
    this.code = code
    if (options.lasts) this.lasts = options.lasts
  }
}

/** Whether the same call may succeed later, so that a retry makes sense. */
export function mayPass(error: unknown): boolean {
  return error instanceof SluiceError && error.lasts === 'passes'
}

/** Whether the store has failed for good: no later call of this process reaches it. */
export function isFinal(error: unknown): boolean {
  return error instanceof SluiceError && error.lasts === 'final'
}
