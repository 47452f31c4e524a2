import { AUDIT_KEPT, AUDIT_PRUNED_EVERY, type AuditEntry, type AuditQuery, type AuditRow } from '../contract/audit.ts'
import { column, columns, texts } from './columns.ts'
import type { Reading } from './reading.ts'
import { type Access, all, get, run } from './sql.ts'

const AUDIT = columns({
  ...texts('who', 'tenant', 'action', 'subject', 'detail'),
  id: column<number>(),
  atMs: column<number>('at'),
})

const INSERT =
  'INSERT INTO sluice.audit (at, who, tenant, action, subject, detail) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id'
const NEWEST_FIRST = `SELECT ${AUDIT.list} FROM sluice.audit WHERE id < $1 AND ($2::text IS NULL OR tenant = $2) ORDER BY id DESC LIMIT $3`

/** Records one change, and forgets the oldest. */
export function* audit({ db }: Access, { atMs, who, tenant, action, subject, detail }: AuditEntry): Reading<void> {
  const row = yield* get<[number]>(db, INSERT, Math.round(atMs), who, tenant, action, subject, detail)
  const [id] = row as [number]
  if (id % AUDIT_PRUNED_EVERY === 0) yield* run(db, 'DELETE FROM sluice.audit WHERE id <= $1', id - AUDIT_KEPT)
}

/** Recorded changes, newest first. */
export function* auditTrail({ db }: Access, { before, tenant, limit }: AuditQuery): Reading<AuditRow[]> {
  const rows = yield* all(db, NEWEST_FIRST, before ?? Number.MAX_SAFE_INTEGER, tenant, limit)
  return rows.map(AUDIT.read)
}
