import {
  AUDIT_KEPT,
  AUDIT_KEPT_MS,
  AUDIT_PRUNED_EVERY,
  type AuditEntry,
  type AuditQuery,
  type AuditRow,
} from '../contract/audit.ts'
import { isStorable } from '../../base/text.ts'
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
const NEWEST_FIRST = `SELECT ${AUDIT.list} FROM sluice.audit WHERE id < $1 AND ($2::text IS NULL OR tenant = $2)
  AND ($4::text IS NULL OR who = $4) AND ($5::text IS NULL OR action = $5) AND ($6::text IS NULL OR starts_with(subject, $6))
  AND ($7::bigint IS NULL OR at >= $7) AND ($8::bigint IS NULL OR at < $8) ORDER BY id DESC LIMIT $3`
/** Each tenant has rows of its own: one that changes much must not push those of the others out. */
const FORGET = `DELETE FROM sluice.audit WHERE at < $1 OR (tenant = $2 AND id <= (
  SELECT id FROM sluice.audit WHERE tenant = $2 ORDER BY id DESC LIMIT 1 OFFSET ${AUDIT_KEPT}))`

/** Records one change, and forgets the oldest ones of its tenant. */
export function* audit({ db }: Access, { atMs, who, tenant, action, subject, detail }: AuditEntry): Reading<void> {
  const row = yield* get<[number]>(db, INSERT, Math.round(atMs), who, tenant, action, subject, detail)
  const [id] = row as [number]
  if (id % AUDIT_PRUNED_EVERY === 0) yield* run(db, FORGET, Math.round(atMs) - AUDIT_KEPT_MS, tenant)
}

/** Recorded changes, newest first. */
export function* auditTrail({ db }: Access, query: AuditQuery): Reading<AuditRow[]> {
  const { before, tenant, limit, who = null, action = null, subject = null, sinceMs = null, untilMs = null } = query
  if (![who, action, subject].every((text) => isStorable(text ?? ''))) return []
  const first = before ?? Number.MAX_SAFE_INTEGER
  const rows = yield* all(db, NEWEST_FIRST, first, tenant, limit, who, action, subject, sinceMs, untilMs)
  return rows.map(AUDIT.read)
}
