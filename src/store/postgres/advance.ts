import type { Statements } from '../../database/statements.ts'
import type { FlowKind, FlowNews, FlowState, MovedJob } from '../../jobs/flow.ts'
import { errorOf } from '../shared/set-aside.ts'
import { flowStateName } from '../shared/stored-flows.ts'
import type { Context } from './context.ts'

type Moved = readonly [id: string, task: string, queue: string]
type NewsRow = readonly [
  first: number,
  id: string,
  kind: FlowKind,
  name: string | null,
  ended: number | null,
  activated: readonly Moved[] | null,
  cancelled: readonly Moved[] | null,
  discarded: readonly (readonly [...Moved, input: string])[] | null,
  error?: string | null,
]

/**
 * Applies the end of these jobs, in this transaction, to their flows. Returns the news by the first of each flow's
 * jobs; jobs without a flow are skipped.
 */
export async function advance(
  context: Context,
  db: Statements,
  seqs: readonly number[],
): Promise<Map<number, FlowNews>> {
  const row = await db.get<[string | null]>(
    'SELECT sluice.advance($1::bigint[], $2::bigint[])',
    seqs,
    retentionOf(context),
  )
  return newsOf(row?.[0] ?? null)
}

/** Reads the answer of the SQL function `advance`. */
export function newsOf(text: string | null): Map<number, FlowNews> {
  const rows = text === null ? [] : (JSON.parse(text) as readonly NewsRow[])
  return new Map(rows.map((row) => [row[0], toNews(row)]))
}

/** The retention of completed, cancelled and discarded jobs. */
export function retentionOf({ retention }: Context): number[] {
  return [retention.completedUs, retention.cancelledUs, retention.discardedUs]
}

/** A moved job in an event. */
function moved([id, task, queue]: readonly [id: string, task: string, queue: string, ...unknown[]]): MovedJob {
  return { id, task, queue }
}

function toNews([, id, kind, name, ended, activated, cancelled, discarded, error = null]: NewsRow): FlowNews {
  return {
    id,
    kind,
    name,
    ended: ended === null ? null : (flowStateName(ended) as Exclude<FlowState, 'running'>),
    activated: (activated ?? []).map(moved),
    cancelled: (cancelled ?? []).map(moved),
    discarded: (discarded ?? []).map((row) => ({ ...moved(row), input: row[3] })),
    ...(error !== null && { error: errorOf(error) }),
  }
}
