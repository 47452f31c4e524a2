/** Rows of what both stores keep on record for remote callers: changes and workers. */
import type { AuditEntry, AuditRow } from '../contract/audit.ts'
import type { Directive, WorkerRecord } from '../contract/workers.ts'
import { column, columns } from './columns.ts'

const AUDIT = columns({
  id: column<number>(),
  atMs: column<number>('at'),
  who: column<string>(),
  tenant: column<string>(),
  action: column<string>(),
  subject: column<string>(),
  detail: column<string>(),
})

const WORKER = columns({
  worker: column<number>('id'),
  name: column<string | null>(),
  queues: column<string>(),
  tasks: column<string | null>(),
  directive: column<Directive>(),
  aliveUntilUs: column<number>('alive_until'),
  joinedUs: column<number>('joined'),
  about: column<string | null>(),
  active: column<number>(),
})

/** The columns of a change on record. */
export const AUDIT_COLUMNS: string = AUDIT.list
/** The columns of a worker on record, queues and tasks as JSON text. */
export const WORKER_COLUMNS: string = WORKER.list

/** What is stored of a change: its columns but for the number. */
export function auditValues({ atMs, who, tenant, action, subject, detail }: AuditEntry): (string | number)[] {
  return [Math.round(atMs), who, tenant, action, subject, detail]
}

/** A change on record, of its row. */
export function auditRow(row: readonly unknown[]): AuditRow {
  return AUDIT.read(row)
}

/** A worker on record, of its row. */
export function workerRecord(row: readonly unknown[], nowUs: number): WorkerRecord {
  const fields = WORKER.read(row)
  return {
    ...fields,
    queues: JSON.parse(fields.queues) as string[],
    tasks: fields.tasks === null ? null : (JSON.parse(fields.tasks) as string[]),
    alive: fields.aliveUntilUs > nowUs,
  }
}
