import type { Clock } from '../../base/clock.ts'
import type { Statements } from '../../database/statements.ts'
import type { Diagnosis } from '../contract/diagnosis.ts'

const SCHEMA = `replace(rtrim('sluice.', '.'), '"', '')`
const ROWS_AT_MOST = 20

/** Reads the figures of a PostgreSQL server and of the store's tables in it. */
export async function diagnose(db: Statements, clock: Clock): Promise<Diagnosis> {
  const { clockOffsetMs, roundTripMs } = await offsetOf(db, clock)
  const [version, bytes, seesLog] = (await db.get<[string, number, boolean]>(
    `SELECT current_setting('server_version'),
       (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ${SCHEMA} AND c.relkind = 'r'),
       has_function_privilege('pg_ls_waldir()', 'execute')`,
  )) as [string, number, boolean]
  const log = seesLog ? await db.get<[number]>('SELECT coalesce(sum(size), 0)::bigint FROM pg_ls_waldir()') : undefined
  const tables = await db.all<[string, number, number]>(
    `SELECT relname::text, n_live_tup, n_dead_tup FROM pg_stat_user_tables WHERE schemaname = ${SCHEMA} ORDER BY relname`,
  )
  const transactions = await db.all<[number, number, string, string]>(
    `SELECT pid, extract(epoch FROM clock_timestamp() - xact_start)::float8, coalesce(state, ''), coalesce(application_name, '')
     FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
       AND xact_start < clock_timestamp() - interval '1 s' AND backend_type = 'client backend'
     ORDER BY xact_start LIMIT ${ROWS_AT_MOST}`,
  )
  const blocked = await db.all<[number, number, string]>(
    `SELECT pid, extract(epoch FROM clock_timestamp() - query_start)::float8, to_json(pg_blocking_pids(pid))::text
     FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
     ORDER BY query_start LIMIT ${ROWS_AT_MOST}`,
  )
  return {
    database: `PostgreSQL ${version}`,
    clockOffsetMs,
    roundTripMs,
    bytes,
    freeBytes: 0,
    logBytes: log?.[0] ?? null,
    tables: tables.map(([name, live, dead]) => ({ name, live, dead })),
    transactions: transactions.map(([pid, seconds, state, application]) => ({ pid, seconds, state, application })),
    blocked: blocked.map(([pid, seconds, by]) => ({ pid, seconds, by: JSON.parse(by) as number[] })),
  }
}

/** The server reads its clock about half a round trip after the question. */
async function offsetOf(db: Statements, clock: Clock): Promise<Pick<Diagnosis, 'clockOffsetMs' | 'roundTripMs'>> {
  const beganUs = clock.monotonicUs()
  const atMs = clock.now()
  const [serverMs] = (await db.get<[number]>('SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8')) as [
    number,
  ]
  const roundTripMs = (clock.monotonicUs() - beganUs) / 1000
  return { clockOffsetMs: serverMs - atMs - roundTripMs / 2, roundTripMs }
}
