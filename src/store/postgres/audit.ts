import type { Statements } from '../../database/postgres.ts'
import { AUDIT_KEPT, AUDIT_PRUNED_EVERY, type AuditEntry, type AuditQuery, type AuditRow } from '../contract/audit.ts'
import { AUDIT_COLUMNS, auditRow, auditValues } from '../shared/records.ts'

/** Keeps one change on record, and forgets the oldest. */
export async function audit(db: Statements, entry: AuditEntry): Promise<void> {
  const [id] = (await db.get<[number]>(
    `INSERT INTO sluice.audit (at, who, tenant, action, subject, detail) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id`,
    ...auditValues(entry),
  )) as [number]
  if (id % AUDIT_PRUNED_EVERY === 0) await db.run('DELETE FROM sluice.audit WHERE id <= $1', id - AUDIT_KEPT)
}

/** Changes on record, newest first. */
export async function auditTrail(db: Statements, { before, tenant, limit }: AuditQuery): Promise<AuditRow[]> {
  const rows = await db.all(
    `SELECT ${AUDIT_COLUMNS} FROM sluice.audit
     WHERE id < $1 AND ($2::text IS NULL OR tenant = $2) ORDER BY id DESC LIMIT $3`,
    before ?? Number.MAX_SAFE_INTEGER,
    tenant,
    limit,
  )
  return rows.map(auditRow)
}
