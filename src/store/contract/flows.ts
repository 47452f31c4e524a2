/** Flows: jobs that wait for each other. */
import type { FlowNews, FlowQuery, FlowRecord, FlowState } from '../../jobs/flow.ts'
import type { NewFlow } from '../../jobs/new-flow.ts'
import type { Workflows } from './workflows.ts'

/**
 * Jobs that wait for each other, under one parent. The store writes all rows at the start. A job that waits for others
 * is `pending`, has no lane and wakes no worker.
 *
 * A job of a flow can end by a settlement, a cancel, a recovery, a rejection or an expiry. The same transaction updates
 * the flow, exactly once. If the job completed, the jobs that waited for it alone become available (or scheduled), at
 * their old place. If it did not complete, all that wait for it, directly or not, are cancelled. The end of the last
 * node ends the flow and makes its callbacks available. A manual retry of a discarded node reopens the flow and the
 * jobs that its failure cancelled.
 */
export interface Flows extends Workflows {
  /** Stores a flow and all its jobs durably, all or none. */
  startFlow(flow: NewFlow): Promise<void>
  /** One flow by its id. */
  getFlow(id: string): Promise<FlowRecord | null>
  /** Flows by state, kind, name and key, newest first. */
  flows(query: FlowQuery): Promise<FlowRecord[]>
  /**
   * Ends a running flow: waiting jobs are cancelled, active ones are marked as by `cancel`, and no callback becomes
   * available.
   */
  cancelFlow(id: string): Promise<FlowCancelAnswer>
}

/** The result of a request to cancel a flow. */
export type FlowCancelAnswer =
  /** `requested`: jobs that were active; their workers end them. */
  | { readonly kind: 'cancelled'; readonly news: FlowNews; readonly requested: readonly string[] }
  | { readonly kind: 'finished'; readonly state: FlowState }
  | { readonly kind: 'missing' }
