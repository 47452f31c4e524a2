import type { QueueView } from '../../engine/api/queues.ts'
import { quantile, type Tally } from '../../jobs/tally.ts'
import type { Diagnosis, SchemaVersion } from '../../store/contract/diagnosis.ts'
import type { ThrottledRow } from '../../store/contract/waits.ts'
import { inWords, printable } from '../words.ts'

/** Something that the doctor looked at. */
export interface Finding {
  readonly check: Check
  readonly severity: 'ok' | 'warning' | 'error'
  readonly words: string
  /** The remedy; null: none is needed. */
  readonly action: string | null
}

/** The subjects of the doctor. */
export type Check =
  | 'schema'
  | 'database'
  | 'clock'
  | 'claims'
  | 'dead rows'
  | 'transactions'
  | 'locks'
  | 'log'
  | 'queues'
  | 'limits'

/** Everything that the doctor knows of a store. */
export interface Facts {
  readonly schema: SchemaVersion
  readonly diagnosis: Diagnosis
  readonly queues: readonly QueueView[]
  /** The claims of all engines in the last 10 minutes. */
  readonly claims: Tally
  readonly throttled: readonly ThrottledRow[]
  /** The names of all defined limits. */
  readonly limits: readonly string[]
  /** Limits and overrides that no engine can read. */
  readonly unreadable: readonly string[]
}

const CLOCK_OFF_MS = 1000
const SLOW_CLAIM_MS = 1000
const DEAD_ROWS = 10_000
const LONG_TRANSACTION_S = 60
const LONG_LOCK_S = 5
const MIB = 1_048_576
const LARGE_LOG = { sqlite: 64 * MIB, postgres: 10_240 * MIB }
const MOSTLY_FREE = 0.5
const MUCH_FREE = 64 * MIB

/** Judges a store: one finding at least for each check, those with trouble in the place of a good one. */
export function findingsOf(facts: Facts): Finding[] {
  const { diagnosis } = facts
  return [
    ...ofSchema(facts.schema),
    ...ofDatabase(diagnosis),
    ...ofClock(diagnosis),
    ...ofClaims(facts.claims),
    ...ofRows(diagnosis),
    ...ofTransactions(diagnosis),
    ...ofLocks(diagnosis),
    ...ofLog(diagnosis),
    ...ofQueues(facts.queues),
    ...ofLimits(facts),
  ]
}

const ok = (check: Check, words: string): Finding[] => [{ check, severity: 'ok', words, action: null }]
const warning = (check: Check, words: string, action: string): Finding => ({
  check,
  severity: 'warning',
  words,
  action,
})
const error = (check: Check, words: string, action: string): Finding => ({ check, severity: 'error', words, action })

function ofSchema({ stored, known }: SchemaVersion): Finding[] {
  if (stored === known) return ok('schema', `version ${stored}, as this Sluice has it`)
  return [
    warning(
      'schema',
      `version ${stored}, and this Sluice knows ${known}`,
      stored > known ? 'Update this Sluice.' : 'Run sluice migrate, or start an engine of this version.',
    ),
  ]
}

function ofDatabase({ bytes, database, freeBytes, roundTripMs }: Diagnosis): Finding[] {
  const words = `${database}, ${mib(bytes)}, answers in ${inWords(Math.max(1, roundTripMs))}`
  if (freeBytes < MUCH_FREE || freeBytes < MOSTLY_FREE * bytes) return ok('database', words)
  const free = `${mib(freeBytes)} of the file hold nothing`
  return [warning('database', `${words}; ${free}`, 'Run VACUUM while no engine works, if the space is needed.')]
}

function ofClock({ clockOffsetMs, roundTripMs }: Diagnosis): Finding[] {
  const off = Math.abs(clockOffsetMs)
  const side = clockOffsetMs > 0 ? 'ahead of' : 'behind'
  if (off - roundTripMs / 2 < CLOCK_OFF_MS) return ok('clock', 'the database and this host agree')
  return [
    warning(
      'clock',
      `the database is ${inWords(off)} ${side} this host`,
      'Let NTP set both clocks. Times that this host gives, such as runAt, are off by as much.',
    ),
  ]
}

function ofClaims({ c = 0, f = 0, r }: Tally): Finding[] {
  if (c + f === 0) return ok('claims', 'none with work in the last 10 minutes')
  const p99 = quantile(r, 0.99) ?? 0
  const words = `${c + f} in the last 10 minutes, p99 ${inWords(p99)}`
  const found: Finding[] = []
  if (f > 0)
    found.push(
      error('claims', `${words}; ${f} failed`, 'Read the logs of the engines: they name the error of the store.'),
    )
  if (p99 > SLOW_CLAIM_MS)
    found.push(
      warning(
        'claims',
        `${words}, which is slow`,
        'Look for a slow disk, dead rows and long transactions, named below.',
      ),
    )
  return found.length > 0 ? found : ok('claims', words)
}

function ofRows({ tables }: Diagnosis): Finding[] {
  const found = tables
    .filter(({ dead, live }) => dead > DEAD_ROWS && dead > live)
    .map(({ dead, live, name }) =>
      warning(
        'dead rows',
        `the table ${name} has ${dead} dead rows beside ${live} live ones`,
        'End long transactions, which hold vacuum up, then run VACUUM on the table. Let autovacuum run more often.',
      ),
    )
  return found.length > 0 ? found : ok('dead rows', tables.length === 0 ? 'this database has none' : 'few')
}

function ofTransactions({ transactions }: Diagnosis): Finding[] {
  const found = transactions
    .filter(({ seconds }) => seconds > LONG_TRANSACTION_S)
    .map(({ application, pid, seconds, state }) =>
      warning(
        'transactions',
        `process ${pid}${application === '' ? '' : ` (${printable(application)})`} is ${state} for ${inWords(seconds * 1000)}`,
        `It keeps vacuum from removing dead rows. End it in its program, or SELECT pg_terminate_backend(${pid}).`,
      ),
    )
  return found.length > 0 ? found : ok('transactions', 'none is long')
}

function ofLocks({ blocked }: Diagnosis): Finding[] {
  const found = blocked
    .filter(({ seconds }) => seconds > LONG_LOCK_S)
    .map(({ by, pid, seconds }) =>
      error(
        'locks',
        `process ${pid} waits for ${inWords(seconds * 1000)} for a lock of ${by.join(', ') || 'another one'}`,
        'See what that process does in pg_stat_activity, and end its transaction.',
      ),
    )
  return found.length > 0 ? found : ok('locks', 'none is waited for')
}

function ofLog({ database, logBytes }: Diagnosis): Finding[] {
  if (logBytes === null) return ok('log', 'this user may not see its size (pg_monitor may)')
  const isFile = database.startsWith('SQLite')
  if (logBytes < LARGE_LOG[isFile ? 'sqlite' : 'postgres']) return ok('log', mib(logBytes))
  const action = isFile
    ? 'A reader keeps it from shrinking. End programs that hold the file open in a transaction.'
    : 'Look for replication slots that nobody reads, a failing archive_command, and max_wal_size.'
  return [warning('log', mib(logBytes), action)]
}

function ofQueues(queues: readonly QueueView[]): Finding[] {
  const found = queues
    .filter(({ jobs, paused, workers }) => !paused && workers === 0 && jobs.available > 0)
    .map(({ jobs, name }) =>
      error(
        'queues',
        `no live worker serves ${name}, where ${jobs.available} jobs wait`,
        `Start a worker for it, or move its jobs: sluice jobs move <queue> --queue ${name}`,
      ),
    )
  return found.length > 0 ? found : ok('queues', 'each with waiting jobs is served or paused')
}

function ofLimits({ limits, throttled, unreadable }: Facts): Finding[] {
  const waiting = new Map<string, number>()
  for (const row of throttled)
    if (!limits.includes(row.limit)) waiting.set(row.limit, (waiting.get(row.limit) ?? 0) + row.waiting)
  const found = [...waiting].map(([limit, jobs]) =>
    error(
      'limits',
      `${jobs} jobs wait for the limit ${printable(limit)}, which is not defined`,
      'Start an engine that defines it, or cancel these jobs.',
    ),
  )
  for (const name of unreadable)
    found.push(
      error(
        'limits',
        `${printable(name)} cannot be read, so nothing starts under it`,
        'Start an engine that defines it.',
      ),
    )
  return found.length > 0 ? found : ok('limits', `${limits.length} defined, none unknown`)
}

function mib(bytes: number): string {
  return bytes < MIB ? `${Math.ceil(bytes / 1024)} KiB` : `${Math.round(bytes / MIB)} MiB`
}
