import type { Statements } from '../../database/postgres.ts'

/** Locks the flow of a discarded job and says whether that may run again: once a flow's retention is over, parts of it may be gone. */
export async function mayReopen(db: Statements, flow: number): Promise<boolean> {
  const row = await db.get<[boolean]>(
    'SELECT due IS NULL OR due > sluice.now_us() FROM sluice.flows WHERE seq = $1 FOR UPDATE',
    flow,
  )
  return row?.[0] ?? false
}

/** A discarded node runs again, by hand: its flow goes on, and what was cancelled because of it waits again. */
export async function reopen(db: Statements, seq: number): Promise<void> {
  await db.run('SELECT sluice.reopen($1::bigint)', seq)
}
