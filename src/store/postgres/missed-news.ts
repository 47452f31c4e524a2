import type { Statements } from '../../database/statements.ts'
import type { FlowKind, FlowNews } from '../../jobs/flow.ts'
import { isFinal } from '../../jobs/job-state.ts'
import type { SettleResult } from '../../jobs/settlement.ts'
import { DEADLINE_STEP } from '../../jobs/workflow.ts'
import type { SettleRequest } from '../shared/settle-once.ts'
import { column, columns } from '../shared/columns.ts'
import { errorOf } from '../shared/set-aside.ts'
import { STATE } from '../shared/state.ts'
import { flowStateName, storedFlowState } from '../shared/stored-flows.ts'

const ENDED = columns({
  job: column<number>('j.seq'),
  id: column<string>('f.id'),
  kind: column<FlowKind>('f.kind'),
  name: column<string | null>('f.name'),
  state: column<number>('f.state'),
  error: column<string | null>('f.error'),
})
// Another process that applies an end holds its note until its transaction is over.
const AFTER_OTHERS = 'SELECT 1 FROM sluice.flow_ends WHERE seq = ANY ($1::bigint[]) FOR SHARE'
/** Flows that one of these jobs ended. What ends later than its flow did not end it. */
const FLOWS = `SELECT DISTINCT ON (f.seq) ${ENDED.list} FROM sluice.jobs j JOIN sluice.flows f ON f.seq = j.flow
  WHERE j.seq = ANY ($1::bigint[]) AND f.state <> ${storedFlowState('running')}
    AND CASE WHEN f.kind IN ('workflow', 'machine', 'graph')
      THEN f.finished >= j.finished AND (j.node = 0 OR j.step = '${DEADLINE_STEP}' AND j.state = ${STATE.discarded})
      ELSE f.finished = j.finished END
  ORDER BY f.seq, j.seq`

/**
 * Adds the news of flows that ended by a settlement whose own answer has none: the answer of an earlier try was lost, or
 * another process has applied the end.
 * @param applied the jobs whose ends this process has applied since
 */
export async function withMissedNews(
  session: <T>(work: (db: Statements) => Promise<T>) => Promise<T>,
  requests: readonly SettleRequest[],
  settled: readonly SettleResult[],
  applied: ReadonlySet<number> | null,
): Promise<SettleResult[]> {
  const missed = requests.flatMap(({ again, settlement: { moves, seq } }, at) => {
    const result = settled[at]
    if (result?.kind !== 'settled' || result.flow || !isFinal(result.state)) return []
    return again || (applied && moves !== undefined && !applied.has(seq)) ? [seq] : []
  })
  if (missed.length === 0) return [...settled]
  const news = await session((db) => endedBy(db, missed))
  return settled.map((result, at) => {
    const { seq } = (requests[at] as SettleRequest).settlement
    const flow = news.get(seq)
    if (!flow || result.kind !== 'settled') return result
    // A settlement that was repeated in one batch is told once.
    news.delete(seq)
    return { ...result, flow }
  })
}

async function endedBy(db: Statements, seqs: readonly number[]): Promise<Map<number, FlowNews>> {
  await db.all(AFTER_OTHERS, seqs)
  const rows = (await db.all<readonly unknown[]>(FLOWS, seqs)).map((row) => ENDED.read(row))
  return new Map(
    rows.map(({ job, id, kind, name, state, error }): [number, FlowNews] => {
      const ended = flowStateName(state) as Exclude<FlowNews['ended'], null>
      const news = { id, kind, name, ended, activated: [], cancelled: [], discarded: [] }
      return [job, { ...news, ...(error !== null && { error: errorOf(error) }) }]
    }),
  )
}
