import type { Statements } from '../../database/statements.ts'
import type { Settlement } from '../../jobs/settlement.ts'
import { attemptBack, type SettleRequest } from '../shared/settle-once.ts'
import { column, columns, type RowOf } from '../shared/columns.ts'
import { isEnd, STATE } from '../shared/state.ts'

/**
 * The state of a run for a repeated settlement: it is still open; an earlier try ended it; another process took it from
 * its worker; its job is no longer stored.
 */
export type Found =
  | { readonly kind: 'open' | 'lost' | 'gone' }
  | { readonly kind: 'won'; readonly state: number | null }

/** For each request: whether the run's history shows a lost lease or a failure. */
const RUN = columns({
  at: column<number>('g.at'),
  attempt: column<number>('j.attempt'),
  state: column<number>('j.state'),
  worker: column<number | null>('j.worker'),
  started: column<number | null>('j.started'),
  lost: column<boolean>(failedAs('LIKE')),
  failed: column<boolean>(failedAs('NOT LIKE')),
})
const FOUND = `SELECT ${RUN.list}
  FROM unnest($1::bigint[], $2::int[]) WITH ORDINALITY g(seq, attempt, at) JOIN sluice.jobs j ON j.seq = g.seq`

/**
 * Finds the runs of settlements whose earlier try may have been written. Only its own worker and recovery end a run,
 * and recovery leaves a note in the job's history. So the earlier try ended a run that is closed and was not lost. The
 * job may have continued since then.
 */
export async function findRuns(db: Statements, requests: readonly SettleRequest[]): Promise<Found[]> {
  const rows = await db.all(
    FOUND,
    requests.map(({ settlement }) => settlement.seq),
    requests.map(({ settlement }) => settlement.attempt),
  )
  const found = requests.map((): Found => ({ kind: 'gone' }))
  for (const row of rows.map(RUN.read)) found[row.at - 1] = foundOf(requests[row.at - 1] as SettleRequest, row)
  return found
}

function foundOf({ worker, settlement }: SettleRequest, row: RowOf<typeof RUN>): Found {
  const { attempt, state, worker: holder, started, lost, failed } = row
  const { startedUs = started } = settlement
  if (state === STATE.active && attempt === settlement.attempt && holder === worker && started === startedUs)
    return { kind: 'open' }
  if (lost) return { kind: 'lost' }
  return hasWon(settlement, attempt, state, failed)
    ? { kind: 'won', state: isEnd(state) ? state : null }
    : { kind: 'lost' }
}

function hasWon(settlement: Settlement, attempt: number, state: number, failed: boolean): boolean {
  if (settlement.kind === 'retry') return failed
  // Their attempt was given back, and a later run may have it.
  if (attemptBack(settlement) > 0) return attempt <= settlement.attempt
  return attempt === settlement.attempt && isEnd(state)
}

/** A condition: the history has an entry of the attempt with a lost lease, or with another failure. */
function failedAs(like: 'LIKE' | 'NOT LIKE'): string {
  const ofAttempt = `',"attempt":' || g.attempt || ',"atUs":[0-9]+}$'`
  return `EXISTS (SELECT 1 FROM unnest(j.errors) e WHERE e ${like} '{"code":"lease.lost",%' AND e ~ (${ofAttempt}))`
}
