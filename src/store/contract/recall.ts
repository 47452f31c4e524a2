import type { FlowNews } from '../../jobs/flow.ts'
import type { RecallNews } from '../../jobs/hold.ts'

/** News of a claim for others. By its changes of limits, starts that were granted ahead before may have to go back. */
export interface Recall extends RecallNews {
  /** Lanes of queues that others serve stand in a wait list whose time it has changed: they claim too. Absent: none. */
  readonly wakesOthers?: true
}

/** A run that was cancelled before it began. */
export interface CancelledRun {
  readonly seq: number
  /** The effect on its flow, told with the first of the jobs that the flow has here. */
  readonly flow?: FlowNews
}
