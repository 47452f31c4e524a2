import type { FlowKind } from '../../jobs/flow.ts'
import type { JobState } from '../../jobs/job-state.ts'
import type { SkipReason } from '../../jobs/schedule.ts'

interface JobEvent {
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly attempt: number
}

/** A bucket: a limit, for one partition key. */
interface BucketEvent {
  readonly limit: string
  /** Empty for a limit without keys. */
  readonly key: string
}

/** A bucket with jobs that wait, or waited, for it. */
interface WaitListEvent extends BucketEvent {
  /** The worker that owns the bucket, for a limit of scope `worker`; absent: the limit is fleet-wide. */
  readonly worker?: number
}

interface ScheduleEvent {
  readonly schedule: string
}

interface FlowEvent {
  readonly id: string
  readonly kind: FlowKind
  readonly name: string | null
}

interface StepEvent {
  /** The flow's id. */
  readonly id: string
  readonly workflow: string
  readonly step: string
  readonly attempt: number
}

interface WorkflowEvent {
  readonly id: string
  readonly workflow: string
}

/** Every event with its payload. The names are the Open Job Spec's. */
export interface SluiceEvents {
  'job.enqueued': Omit<JobEvent, 'attempt'>
  /**
   * `ageMs`: since the enqueue. `waitedMs`: since the job became available for this run. `waitedFor`: the last bucket
   * that it waited for; null: it waited for no budget. `limits`: all limits that charged it.
   */
  'job.started': JobEvent & {
    readonly ageMs: number
    readonly waitedMs: number
    readonly waitedFor: BucketEvent | null
    readonly limits: readonly string[]
  }
  'job.progress': JobEvent & { readonly progress: number }
  'job.completed': JobEvent
  'job.failed': JobEvent & { readonly error: Error }
  'job.retrying': JobEvent & { readonly error: Error; readonly delayMs: number }
  /** A run returned `ctx.snooze`, or a remote worker asked for that: the job is scheduled for then. */
  'job.snoozed': JobEvent & { readonly until: Date }
  'job.discarded': JobEvent & { readonly error: Error }
  'job.cancelled': JobEvent
  /** The lease ended before the run settled, so its outcome was refused. */
  'job.lease_lost': JobEvent
  /** A job was recovered from a dead worker or an expired lease. */
  'job.recovered': JobEvent & { readonly state: JobState }
  /**
   * An open bucket first refused a job. `wantedUnits`: the cost of the first refused job. `grantedUnits`: the units
   * admitted in the same claim. `waitingJobs`: the jobs in its wait list now, at most 1,000. `nextAt`: the next
   * possible start; null: a permit must return first. `deferred`: the refused heads of lanes. The sum of `deferred`
   * over the three events is the number of jobs that waited.
   */
  'rate_limit.exceeded': WaitListEvent & {
    readonly queue: string
    readonly wantedUnits: number
    readonly grantedUnits: number
    readonly waitingJobs: number
    /** @deprecated the same as `wantedUnits` */
    readonly wanted: number
    /** @deprecated jobs, while `grantedUnits` has their cost */
    readonly granted: number
    readonly deferred: number
    readonly nextAt: Date | null
  }
  /**
   * Jobs still wait for the bucket: at most once in an `eventWindow`, with the number of further jobs that waited and
   * started.
   */
  'rate_limit.throttled': WaitListEvent & { readonly deferred: number; readonly nextAt: Date | null }
  /** No job waits for the bucket any more. `deferred`: the number of further jobs that waited and started. */
  'rate_limit.released': WaitListEvent & { readonly deferred: number }
  'rate_limit.dropped': BucketEvent & {
    readonly id: string
    readonly task: string
    readonly expectedStart: Date | null
  }
  /**
   * A limit in shadow mode let a job start that it would have delayed by `delayMs` (null: until a permit had returned),
   * or ended (`drops`). The events of a claim come in the order of its starts.
   */
  'rate_limit.shadow': BucketEvent & {
    readonly id: string
    readonly task: string
    readonly delayMs: number | null
    readonly drops: boolean
  }
  /**
   * A push-back or a penalty closed the bucket until then. Or the API's headers left at most `remaining` units until
   * then.
   */
  'rate_limit.dynamic_adjusted': BucketEvent & { readonly until: Date; readonly remaining: number | null }
  /**
   * A job of this task waits for an undefined limit, and starts once it is defined. For a job in a flow: the flow's id,
   * and its step, from 0.
   */
  'rate_limit.unknown': BucketEvent & {
    readonly queue: string
    readonly task: string
    readonly flow?: string
    readonly step?: number
  }
  /** This process cannot reach a backend of budgets. It is told once, also if another process has noticed it first. */
  'rate_limit.backend_down': { readonly backend: string; readonly error: unknown }
  /** It answers again. `granted`: starts that went on without their budget meanwhile. */
  'rate_limit.backend_up': { readonly backend: string; readonly downMs: number; readonly granted: number }
  /** It lost the limits, and this process defined them again. Their buckets are new: at most one burst more. */
  'rate_limit.backend_reset': { readonly backend: string }
  /** An occurrence came due and became a job. */
  'schedule.fired': ScheduleEvent & { readonly dueAt: Date; readonly id: string; readonly task: string }
  /** An occurrence was skipped: no process ran, the last one had not ended, or its limits allowed only a late start. */
  'schedule.skipped': ScheduleEvent & { readonly dueAt: Date; readonly reason: SkipReason }
  /** The series has ended. */
  'schedule.ended': ScheduleEvent & { readonly runs: number }
  'flow.started': FlowEvent & { readonly jobs: number }
  'flow.completed': FlowEvent
  /**
   * All its jobs have ended, and not all of them completed. Of a workflow: `error` is why, as it was stored; `step` and
   * `attempt` name the step that failed. Null: none did, or the flow is a plain one.
   */
  'flow.failed': FlowEvent & {
    readonly step: string | null
    readonly attempt: number | null
    readonly error: Error | null
  }
  'flow.cancelled': FlowEvent
  /** A flow of a workflow, a machine or a graph waits for a signal, a time, a child, or a job of its own. */
  'flow.parked': WorkflowEvent & { readonly signals: readonly string[]; readonly until: Date | null }
  /** Such a flow goes on after a wait. */
  'flow.woken': WorkflowEvent
  /** A signal was stored for a flow. */
  'flow.signalled': WorkflowEvent & { readonly signal: string }
  /** A body has not asked for steps that it had asked for before: its code has changed, or it is not deterministic. */
  'flow.strayed': WorkflowEvent & { readonly steps: readonly string[] }
  /** `waitedMs`: since the step was wanted. `waitedFor`: the last bucket that it waited for; null: none. */
  'step.started': StepEvent & { readonly waitedMs: number; readonly waitedFor: BucketEvent | null }
  'step.completed': StepEvent
  'step.retrying': StepEvent & { readonly error: Error; readonly delayMs: number }
  /** A step has used up its attempts. */
  'step.failed': StepEvent & { readonly error: Error }
  'worker.started': { readonly worker: number; readonly queues: readonly string[] }
  'worker.stopped': { readonly worker: number }
  /** Events of the fleet since then may be missing: this process had fallen behind. */
  'events.lost': { readonly since: Date }
}

const NAMES: Readonly<Record<keyof SluiceEvents, true>> = {
  'job.enqueued': true,
  'job.started': true,
  'job.progress': true,
  'job.completed': true,
  'job.failed': true,
  'job.retrying': true,
  'job.snoozed': true,
  'job.discarded': true,
  'job.cancelled': true,
  'job.lease_lost': true,
  'job.recovered': true,
  'rate_limit.exceeded': true,
  'rate_limit.throttled': true,
  'rate_limit.released': true,
  'rate_limit.shadow': true,
  'rate_limit.dropped': true,
  'rate_limit.dynamic_adjusted': true,
  'rate_limit.unknown': true,
  'rate_limit.backend_down': true,
  'rate_limit.backend_up': true,
  'rate_limit.backend_reset': true,
  'schedule.fired': true,
  'schedule.skipped': true,
  'schedule.ended': true,
  'flow.started': true,
  'flow.completed': true,
  'flow.failed': true,
  'flow.cancelled': true,
  'flow.parked': true,
  'flow.woken': true,
  'flow.signalled': true,
  'flow.strayed': true,
  'step.started': true,
  'step.completed': true,
  'step.retrying': true,
  'step.failed': true,
  'worker.started': true,
  'worker.stopped': true,
  'events.lost': true,
}

/** The names of all events. */
export const EVENT_NAMES: readonly (keyof SluiceEvents)[] = Object.keys(NAMES) as (keyof SluiceEvents)[]

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}

/** Passes events to listeners. A listener that throws does not affect the others. */
export class Events<E extends object = SluiceEvents> {
  readonly #listeners = new Map<keyof E & string, Set<(event: never) => void>>()
  readonly #onThrow: (error: unknown, name: string) => void
  readonly #enabled: boolean

  /** @param enabled false: no event is emitted */
  constructor(onThrow: (error: unknown, name: string) => void, enabled: boolean) {
    this.#onThrow = onThrow
    this.#enabled = enabled
  }

  /** Calls `listener` at every event of that name. Returns a function that stops it. */
  on<N extends keyof E & string>(name: N, listener: (event: E[N]) => void): () => void {
    const listeners = this.#listeners.get(name) ?? new Set()
    // One function may listen twice.
    const own = (event: E[N]): unknown => listener(event)
    this.#listeners.set(name, listeners.add(own))
    return () => listeners.delete(own)
  }

  /** Returns whether an event has listeners, so that unused payloads are not made. */
  heard(name: keyof E & string): boolean {
    return this.#enabled && (this.#listeners.get(name)?.size ?? 0) > 0
  }

  emit<N extends keyof E & string>(name: N, event: E[N]): void {
    if (!this.#enabled) return
    for (const listener of this.#listeners.get(name) ?? []) {
      try {
        const returned: unknown = (listener as (event: unknown) => unknown)(event)
        // A listener may be an async function; its rejection would end the process.
        if (isThenable(returned)) returned.then(undefined, (error: unknown) => this.#onThrow(error, name))
      } catch (error) {
        this.#onThrow(error, name)
      }
    }
  }
}
