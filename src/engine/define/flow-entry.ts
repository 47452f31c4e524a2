import type { Clock } from '../../base/clock.ts'
import type { Logger } from '../../base/logger.ts'
import type { Random } from '../../base/random.ts'
import type { Answer } from '../../jobs/header-source.ts'
import type { WorkflowRun } from '../../jobs/flow.ts'
import type { FlowMemory } from '../../jobs/flow-memory.ts'
import type { GrantedJob, NewJob } from '../../jobs/job.ts'
import type { FailedStep } from '../../jobs/job-error.ts'
import type { RetryOptions, RetryPolicy } from '../../jobs/retry-policy.ts'
import type { SettleResult } from '../../jobs/settlement.ts'
import type { FlowMove, NewWorkflow } from '../../jobs/workflow.ts'
import type { Limit, UseSpec } from '../../policy/limits/define.ts'
import type { Store } from '../../store/contract/store.ts'
import type { TermsOfQueues } from './job-terms.ts'
import type { LimitRegistry } from './limit-registry.ts'

/** The tasks and workflows of an engine, for a definition that knows only their names. */
export interface ListedNames {
  readonly tasks: readonly string[]
  readonly workflows: readonly string[]
  /** Prepares a call of a task; null: it lists none of this name. */
  readonly call: (task: string, input: unknown, options: NamedCall) => NewJob | Promise<NewJob> | null
  /** Prepares a flow; null: it lists no workflow of this name. */
  readonly start: (name: string, input: unknown, options: { readonly priority: number }) => Promise<NewWorkflow> | null
}

/** The options of a call by name. */
export interface NamedCall {
  readonly priority: number
  readonly queue?: string
  readonly retry?: RetryOptions
  /** Milliseconds. */
  readonly timeout?: number
}

/** The engine's parts that the code of flows needs to prepare jobs and flows. */
export interface FlowEngine {
  readonly clock: Clock
  readonly random: Random
  readonly newId: () => string
  readonly limits: LimitRegistry
  /** The limits that each job of a queue has because of it. */
  readonly queueLimits: { ofJobs(queue: string): readonly UseSpec<never>[] }
  readonly queueTerms: TermsOfQueues
  /** Stores the limits that were resolved for the first time, before the first job that needs them; undefined: none. */
  readonly storeLimits: () => Promise<void> | undefined
  readonly listed: ListedNames
}

/** The context of a handler, for the code of flows alone. */
export interface RemembersFlow {
  /** The memory of the flow of the handler's job; null: it has none, or the flow is gone. */
  flowMemory(): Promise<FlowMemory | null>
}

/** The end of one run of a step's code. */
export type StepEnd = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly error: Error }

/** One run of a job of a workflow flow, as the flow's code gets it. */
export interface FlowEntry {
  readonly engine: FlowEngine
  readonly store: Store
  readonly job: GrantedJob
  /** The flow's id. */
  readonly flow: string
  readonly run: WorkflowRun
  /** Aborts on a cancel, on a lost lease, and when a stop has waited long enough. */
  readonly signal: AbortSignal
  /** A logger whose lines name the step. */
  readonly logger: (at: FailedStep) => Logger
  /** As of a handler's context. */
  readonly charge: (limit: Limit | string, units: number) => void
  readonly observe: (response: Answer) => void
  /** Writes a move that stays in its slot. Null: the run goes on. */
  readonly stay: (move: FlowMove) => Promise<FlowEnd | null>
  /** Runs the code of a step, within the instrumentation if there is one. */
  readonly traced: (step: string, attempt: number, work: () => Promise<StepEnd>) => Promise<StepEnd>
  /** Reports a step or the flow. */
  readonly tell: (news: FlowEntryNews) => void
}

/** The end of a run of a workflow flow's job. */
export type FlowEnd =
  /** `error`: why the flow fails by it. */
  | { readonly kind: 'moved'; readonly move: FlowMove; readonly error: Error | null }
  /** Of a side job. `result`: JSON text. */
  | { readonly kind: 'completed'; readonly result: string | null }
  /** A failed attempt, or a push-back. `retry` null: there is no other attempt. `uses`: as the code lists them. */
  | {
      readonly kind: 'failed'
      readonly error: Error
      readonly retry: RetryPolicy | null
      readonly uses: readonly UseSpec<never>[]
      /** The step that failed, for events; null: there is none to report. */
      readonly step: string | null
    }
  /** The job waits and runs again, with the limits that it has. It uses no attempt. */
  | { readonly kind: 'snoozed'; readonly delayUs: number }
  | { readonly kind: 'cancelled' }
  /** A write within the run has ended it. Null: it was abandoned. */
  | { readonly kind: 'settled'; readonly result: SettleResult | null }

/** News of one run of a workflow flow's job. */
export type FlowEntryNews =
  | { readonly kind: 'started'; readonly step: string; readonly attempt: number; readonly waited: StepWait }
  | { readonly kind: 'completed'; readonly step: string; readonly attempt: number }
  | {
      readonly kind: 'retrying'
      readonly step: string
      readonly attempt: number
      readonly error: Error
      readonly delayMs: number
    }
  | { readonly kind: 'failed'; readonly step: string; readonly attempt: number; readonly error: Error }
  | { readonly kind: 'woken' }
  | { readonly kind: 'strayed'; readonly steps: readonly string[] }

/** How long a step waited for its start, in ms, and for which budget longest. */
export interface StepWait {
  readonly waitedMs: number
  readonly waitedFor: { readonly limit: string; readonly key: string } | null
}
