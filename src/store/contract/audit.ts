/** The store's record of changes made through a server. */

/** The audit log. */
export interface AuditLog {
  /** Records a change. The log keeps the newest 100,000. */
  audit(entry: AuditEntry): Promise<void>
  /** Recorded changes, newest first. */
  auditTrail(query: AuditQuery): Promise<AuditRow[]>
}

/** One change. */
export interface AuditEntry {
  /** Wall clock, epoch ms. */
  readonly atMs: number
  /** The name of the token, or of another author. */
  readonly who: string
  /** Empty: the change belongs to no tenant. */
  readonly tenant: string
  /** The name of the operation. */
  readonly action: string
  /** The subject of the change: the path of the request. */
  readonly subject: string
  /** The request as JSON text. */
  readonly detail: string
}

/** One recorded change. */
export interface AuditRow extends AuditEntry {
  /** Grows with each row. */
  readonly id: number
}

/** A filter of recorded changes, newest first. */
export interface AuditQuery {
  /** Only rows before this one. */
  readonly before: number | null
  /** Only this tenant's changes; null: all. */
  readonly tenant: string | null
  readonly limit: number
  /** Only changes of this author; absent or null: all. */
  readonly who?: string | null
  /** Only changes by this operation; absent or null: all. */
  readonly action?: string | null
  /** Only changes whose subject begins with this; absent or null: all. */
  readonly subject?: string | null
  /** Only changes from then on, epoch ms; absent or null: all. */
  readonly sinceMs?: number | null
  /** Only changes before then, epoch ms; absent or null: all. */
  readonly untilMs?: number | null
}

/** Changes older than this are forgotten, in ms: 90 days. */
export const AUDIT_KEPT_MS: number = 90 * 86_400_000
/** The number of changes kept of each tenant. The store forgets the oldest, some hundreds at a time. */
export const AUDIT_KEPT = 100_000
/** The number of new rows after which the store looks for the oldest. */
export const AUDIT_PRUNED_EVERY = 500
