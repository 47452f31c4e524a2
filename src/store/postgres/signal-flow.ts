import type { Statements } from '../../database/statements.ts'
import type { FlowAddress, SignalAnswer } from '../contract/workflows.ts'
import { isUuid } from '../shared/sql.ts'

const SIGNAL = 'SELECT r_kind, r_id, r_woke FROM sluice.signal_flow($1::uuid, $2, $3, $4, $5, $6)'

/** Stores a signal for a flow, and wakes its main job if that waits for it, in one statement. */
export async function signalFlow(
  db: Statements,
  to: FlowAddress,
  signal: string,
  payload: string,
  once: string | null,
): Promise<{ readonly answer: SignalAnswer; readonly woke: boolean }> {
  const missing = { answer: { kind: 'missing' }, woke: false } as const
  if ('id' in to && !isUuid(to.id)) return missing
  const [id, key] = 'key' in to ? [null, to.key] : [to.id, null]
  const row = await db.get<[kind: SignalAnswer['kind'], id: string, woke: boolean]>(
    SIGNAL,
    id,
    to.name ?? null,
    key,
    signal,
    payload,
    once,
  )
  if (!row || row[0] === 'missing') return missing
  return { answer: { kind: row[0], id: row[1] }, woke: row[2] }
}
