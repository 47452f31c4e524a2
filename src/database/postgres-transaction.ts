import type { Statements } from './statements.ts'
import { isLost } from './postgres-error.ts'

const SETTINGS = 'SET LOCAL idle_in_transaction_session_timeout = 2000'
const BEGIN = `BEGIN; ${SETTINGS}; `
const STATEMENTS_OF_BEGIN = 2
// Nothing is locked here, so a process that is merely busy may take its time.
const BY_INDEXES = `SET LOCAL idle_in_transaction_session_timeout = 30000; SET LOCAL jit = off;
  SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off;
  SET LOCAL enable_mergejoin = off; SET LOCAL enable_material = off; SET LOCAL max_parallel_workers_per_gather = 0`

/**
 * Runs work in one transaction of a reserved connection. The server ends a transaction that idles for 2 s, since a
 * stopped process must hold no locks.
 * @param settings statements that change settings for this transaction
 */
export async function inTransaction<T>(
  statements: Statements,
  work: (statements: Statements) => Promise<T>,
  settings: string = SETTINGS,
): Promise<T> {
  await statements.script(`BEGIN; ${settings}`)
  return finished(statements, 'open', work)
}

/** The same for work that uses no other statements than it is given: it begins in the round trip of their first script. */
export function inShortTransaction<T>(
  statements: Statements,
  work: (statements: Statements) => Promise<T>,
): Promise<T> {
  return finished(statements, 'new', work)
}

/**
 * Runs reads that find a few rows of large tables by their indexes. The planner has no statistics of a table that was
 * filled a moment ago. It then takes a million waiting jobs for some hundred, and reads them all to join a page of them.
 */
export function byIndexes<T>(db: Statements, work: (db: Statements) => Promise<T>): Promise<T> {
  return inTransaction(db, work, BY_INDEXES)
}

async function finished<T>(
  statements: Statements,
  begun: 'new' | 'open',
  work: (statements: Statements) => Promise<T>,
): Promise<T> {
  const state: { is: 'new' | 'open' | 'over' } = { is: begun }
  const opened = async (): Promise<Statements> => {
    if (state.is === 'new') {
      state.is = 'open'
      await statements.script(BEGIN)
    }
    return statements
  }
  const script: Statements['script'] = async (sql, ...values) => {
    if (state.is !== 'new') return statements.script(sql, ...values)
    state.is = 'open'
    return (await statements.script(BEGIN + sql, ...values)).slice(STATEMENTS_OF_BEGIN)
  }
  const all: Statements['all'] = async (sql, ...values) => (await opened()).all(sql, ...values)
  try {
    const result = await work({
      all,
      // A name that the server does not know would end the transaction: nothing is prepared.
      call: all,
      get: async (sql, ...values) => (await opened()).get(sql, ...values),
      run: async (sql, ...values) => (await opened()).run(sql, ...values),
      script,
      async last(sql, ...values) {
        const rows = await script(`${sql}; COMMIT`, ...values)
        state.is = 'over'
        return rows
      },
    })
    if (state.is === 'open') await statements.script('COMMIT')
    return result
  } catch (error) {
    if (state.is === 'open' && !isLost(error)) await statements.script('ROLLBACK')
    throw error
  }
}
