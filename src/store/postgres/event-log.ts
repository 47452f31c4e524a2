import type { Statements } from '../../database/statements.ts'
import type { EventWriting } from '../shared/sql.ts'

const LOCK = `SELECT true FROM (SELECT pg_advisory_xact_lock(hashtext('sluice.events'), 0)) l`
const TRY_LOCK = `SELECT pg_try_advisory_xact_lock(hashtext('sluice.events'), 0)`

/**
 * The writing of changes by triggers that are enabled while a reader lives. A position is a snapshot: a read returns
 * what that snapshot does not see, so that a transaction which commits late is read late.
 */
export function eventWriting(db: Statements): EventWriting {
  return {
    position: 'pg_current_snapshot()::text',
    behind: (position) =>
      `e.xid >= pg_snapshot_xmin(${position}::pg_snapshot) AND NOT pg_visible_in_snapshot(e.xid, ${position}::pg_snapshot)`,
    lock: (wait) => holds(db, wait ? LOCK : TRY_LOCK),
    isOn: () => holds(db, 'SELECT sluice.writes_events()'),
    write: (on) => holds(db, 'SELECT sluice.write_events($1::boolean)', on),
  }
}

async function holds(db: Statements, sql: string, ...values: boolean[]): Promise<boolean> {
  return (await db.get<[boolean]>(sql, ...values))?.[0] ?? false
}
