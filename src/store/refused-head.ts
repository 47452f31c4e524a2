import type { FlowPlace } from '../jobs/flow.ts'
import type { Closed } from './store.ts'
import { placeIn } from './stored-flows.ts'

/** A bucket that has closed, with the first job that it refused. */
export interface ClosedOn extends Closed {
  readonly seq: number
}

/** What is read of a refused job: its task, and its place in a flow. */
export type RefusedRow = [seq: number, task: string, flow: string | null, node: number | null, total: number | null]

/** The refused jobs that are to be named: those whose limit is not defined. */
export function toName(closed: readonly ClosedOn[]): number[] {
  return closed.filter(({ defined }) => !defined).map(({ seq }) => seq)
}

/** Says which job was refused, where its row was read. */
export function named(closed: readonly ClosedOn[], rows: readonly RefusedRow[]): Closed[] {
  const bySeq = new Map(rows.map(([seq, task, ...flow]) => [seq, { task, ...placeIn(...flow) }] as const))
  return closed.map(({ seq, ...each }) => {
    const refused: { readonly task: string; readonly flow?: FlowPlace } | undefined = bySeq.get(seq)
    return refused && !each.defined ? { ...each, refused } : each
  })
}
