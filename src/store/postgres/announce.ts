import type { Statements } from '../../database/statements.ts'
import type { Instant } from '../../jobs/series.ts'
import { STATE } from '../shared/state.ts'

/** A job in its lane with a latest start: the claim looks at it although it may not be the head. */
export const LOOK: string = `state = ${STATE.available} AND due IS NOT NULL`
const ANNOUNCE = `INSERT INTO sluice.arrivals (queue, lane, uses, fair, look)
  SELECT DISTINCT queue, lane, uses, fair, ${LOOK} FROM sluice.jobs WHERE seq = ANY ($1::bigint[]) AND uses IS NOT NULL`
const REJOIN = `UPDATE sluice.jobs SET state = ${STATE.available}, since = $2, booked = NULL,
  due = sluice.latest_start(uses, expires, $2, $3) WHERE seq = $1`

/** Makes the next claim evaluate the heads of the lanes that these jobs have joined or left. */
export async function announce(db: Statements, seqs: readonly number[]): Promise<void> {
  if (seqs.length > 0) await db.run(ANNOUNCE, seqs)
}

/** Makes a job available in its lane, at its old place. The bound on its wait starts again; its expiry stays. */
export async function rejoin(db: Statements, seq: number, { nowUs, wallUs }: Instant): Promise<void> {
  await db.run(REJOIN, seq, nowUs, wallUs)
  await announce(db, [seq])
}
