import type { WatchSource } from './drop-watch.ts'
import type { Elsewhere } from './elsewhere.ts'
import { admittedAtUs } from './guaranteed.ts'
import { type Bucket, type Head, type HeadSource, type Lane, unlistedBefore, type UnlistedSource } from './lane.ts'
import type { WaitListSource } from './wait-list.ts'

/** The reads of a decision while it runs. A backend answers from its tables, with at most the rows asked for. */
export interface AdmissionSource extends WaitListSource, HeadSource, UnlistedSource, WatchSource {
  /** Whether calls of plain code wait in this queue, which only one process serves. */
  ofCalls(queue: number): boolean
  /** The starts that need units of a backend. */
  readonly elsewhere: Elsewhere
  /** Since when this claimer has seen such a job ahead of one that it could start. Absent: it never yields. */
  readonly yieldedSince?: ((lane: Lane, seq: number) => number) | undefined
}

/** When a bucket alone admits the first job of a lane, even if only another worker may start it: now, or later. */
export function needOf(source: AdmissionSource, lane: Lane, head: Head | null, bucket: Bucket, nowUs: number): number {
  const first = [head, unlistedBefore(source, lane, head)].flatMap((each) => each ?? [])
  if (first.length === 0) return nowUs
  return Math.min(
    ...first.map((each) => admittedAtUs(lane, each, bucket, nowUs, source.elsewhere.seen(lane, each, bucket))),
  )
}
