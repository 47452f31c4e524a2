import { AUDIT_KEPT, AUDIT_PRUNED_EVERY, type AuditEntry, type AuditQuery, type AuditRow } from '../contract/audit.ts'
import { AUDIT_COLUMNS, auditRow, auditValues } from '../shared/records.ts'
import type { Context } from './context.ts'

/** Keeps one change on record, and forgets the oldest. */
export function audit({ db }: Context, entry: AuditEntry): void {
  const [id] = db.get<[number]>(
    'INSERT INTO audit (at, who, tenant, action, subject, detail) VALUES (?, ?, ?, ?, ?, ?) RETURNING id',
    ...auditValues(entry),
  ) as [number]
  if (id % AUDIT_PRUNED_EVERY === 0) db.run('DELETE FROM audit WHERE id <= ?', id - AUDIT_KEPT)
}

/** Changes on record, newest first. */
export function auditTrail({ db }: Context, { before, tenant, limit }: AuditQuery): AuditRow[] {
  const rows = db.all(
    `SELECT ${AUDIT_COLUMNS} FROM audit WHERE id < ? AND (? IS NULL OR tenant = ?) ORDER BY id DESC LIMIT ?`,
    before ?? Number.MAX_SAFE_INTEGER,
    tenant,
    tenant,
    limit,
  )
  return rows.map(auditRow)
}
