import type { FlowNews } from '../../jobs/flow.ts'

/** Changes that a claim has read. By them starts that were granted ahead before may have to go back. */
export interface Recall {
  /** Grows with every change of a limit. */
  readonly generation?: number
  /** Buckets under a penalty, of those that the claim read for its decision or as `holds`. */
  readonly closedNow?: readonly { readonly limit: string; readonly key: string }[]
  /** Queues of the request that are paused. */
  readonly pausedQueues?: readonly string[]
}

/** A run that was cancelled before it began. */
export interface CancelledRun {
  readonly seq: number
  /** The effect on its flow, told with the first of the jobs that the flow has here. */
  readonly flow?: FlowNews
}
