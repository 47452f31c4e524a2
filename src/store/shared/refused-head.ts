import type { FlowPlace } from '../../jobs/flow.ts'
import type { Closed } from '../contract/waits.ts'
import { placeIn } from './stored-flows.ts'

/** A bucket that has closed, with the first job that it refused. */
export interface ClosedOn extends Closed {
  readonly bucket: number
  readonly seq: number
}

/** The columns of a refused job: its task, and its place in a flow. */
export type RefusedRow = [seq: number, task: string, flow: string | null, node: number | null, total: number | null]

/** The refused jobs whose names the answer needs: those whose limit is not defined. */
export function toName(closed: readonly ClosedOn[]): number[] {
  return closed.filter(({ defined }) => !defined).map(({ seq }) => seq)
}

/** The most waiting jobs that the claim counts for a bucket that closes. */
export const WAITING_COUNTED = 1000

/** Adds the refused job, if its row was found, and the number of waiting jobs, by the bucket's id. */
export function named(
  closed: readonly ClosedOn[],
  rows: readonly RefusedRow[],
  waiting: readonly (readonly [bucket: number, jobs: number])[],
): Closed[] {
  const jobs = new Map(waiting)
  const bySeq = new Map(rows.map(([seq, task, ...flow]) => [seq, { task, ...placeIn(...flow) }] as const))
  return closed.map(({ seq, bucket, ...told }) => {
    const each = { ...told, waiting: Math.max(told.deferred, jobs.get(bucket) ?? 0) }
    const refused: { readonly task: string; readonly flow?: FlowPlace } | undefined = bySeq.get(seq)
    return refused && !each.defined ? { ...each, refused } : each
  })
}
