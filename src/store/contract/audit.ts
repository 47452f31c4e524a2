/** What a store keeps of who changed what through a server. */

/** Changes on record. */
export interface AuditLog {
  /** Keeps a change on record; the oldest of 100,000 are forgotten. */
  audit(entry: AuditEntry): Promise<void>
  /** Changes on record, newest first. */
  auditTrail(query: AuditQuery): Promise<AuditRow[]>
}

/** One change. */
export interface AuditEntry {
  /** Wall clock, epoch ms. */
  readonly atMs: number
  /** The name of the token, or what else did it. */
  readonly who: string
  /** Empty: of no tenant. */
  readonly tenant: string
  /** The name of the operation. */
  readonly action: string
  /** What it was done to: the path of the request. */
  readonly subject: string
  /** JSON text of what was asked. */
  readonly detail: string
}

/** One change on record. */
export interface AuditRow extends AuditEntry {
  /** Grows with each row. */
  readonly id: number
}

/** Which rows to read, newest first. */
export interface AuditQuery {
  /** Only rows before this one. */
  readonly before: number | null
  /** Only this tenant's; null: all. */
  readonly tenant: string | null
  readonly limit: number
}

/** So many changes are kept; the oldest are forgotten some hundreds at a time. */
export const AUDIT_KEPT = 100_000
/** After so many new rows the oldest are looked for. */
export const AUDIT_PRUNED_EVERY = 500
