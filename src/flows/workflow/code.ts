import type { RetryPolicy } from '../../jobs/retry-policy.ts'
import type { Schema } from '../../jobs/schema.ts'
import type { Steps } from './steps.ts'
import type { Schemas } from '../shared/startable.ts'

/** A workflow with all defaults. */
export interface WorkflowCode {
  readonly name: string
  readonly input: Schema
  readonly signals: Readonly<Record<string, Schema>>
  /** For steps that say nothing else. */
  readonly retry: RetryPolicy
  readonly timeoutMs: number | null
  /** Null: that of the flow. */
  readonly priority: number | null
  readonly queue: string
  readonly strict: boolean
  readonly run: (input: unknown, flow: Steps<Schemas>) => unknown
}
