/** Flows: jobs that wait for each other. */
import type { FlowNews, FlowQuery, FlowRecord, FlowState } from '../../jobs/flow.ts'
import type { NewFlow } from '../../jobs/new-flow.ts'

/**
 * Jobs that wait for each other, under one parent. All rows exist from the start; a job that waits for others is `pending`, has no lane
 * and wakes nobody.
 *
 * Whatever ends a job of a flow (a settlement, a cancel, a recovery, a rejection, an expiry) also does, in the same transaction and once:
 * the flow's tally; where the job completed, the jobs that waited for it alone become available (or scheduled), at their old place; where
 * it did not, all that wait for it, directly or not, are cancelled. The end of the last node ends the flow, and makes its callbacks
 * available. A manual retry of a discarded node opens the flow again, with what was cancelled because of it.
 */
export interface Flows {
  /** Stores a flow and all its jobs durably, all or none. */
  startFlow(flow: NewFlow): Promise<void>
  /** One flow by its id. */
  getFlow(id: string): Promise<FlowRecord | null>
  /** Flows by state, kind and name, newest first. */
  flows(query: FlowQuery): Promise<FlowRecord[]>
  /** Ends a flow that runs: what waits is cancelled, what is active is marked as by `cancel`; no callback becomes available. */
  cancelFlow(id: string): Promise<FlowCancelAnswer>
}

/** What a request to cancel a flow came to. */
export type FlowCancelAnswer =
  /** `requested`: jobs that were active; their workers have to end them. */
  | { readonly kind: 'cancelled'; readonly news: FlowNews; readonly requested: readonly string[] }
  | { readonly kind: 'finished'; readonly state: FlowState }
  | { readonly kind: 'missing' }
