import type { FlowNews } from '../../jobs/flow.ts'

/** News of a claim for others. By its changes of limits, starts that were granted ahead before may have to go back. */
export interface Recall {
  /** Lanes of queues that others serve stand in a wait list whose time it has changed: they claim too. Absent: none. */
  readonly wakesOthers?: true
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
