import { inTransaction, type Statements } from '../../database/postgres.ts'

// Nothing is locked here, so a process that is merely busy may take its time.
const SETTINGS = `SET LOCAL idle_in_transaction_session_timeout = 30000; SET LOCAL jit = off;
  SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off;
  SET LOCAL enable_mergejoin = off; SET LOCAL enable_material = off; SET LOCAL max_parallel_workers_per_gather = 0`

/**
 * Runs reads that find a few rows of large tables by their indexes. The planner has no statistics of a table that was
 * filled a moment ago. It then takes a million waiting jobs for some hundred, and reads them all to join a page of them.
 */
export function byIndexes<T>(db: Statements, work: (db: Statements) => Promise<T>): Promise<T> {
  return inTransaction(db, work, SETTINGS)
}
