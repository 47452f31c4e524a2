/** Records of queues beside their jobs, and the settings of servers. */
import { TICKETS } from '../contract/budgets.ts'
import type { Named, NamesFound, QueueBounds, QueueRecord } from '../contract/queues.ts'
import { column, columns } from './columns.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, all, get, now, run } from './sql.ts'
import { STATE } from './state.ts'
import { wakeSharedWaitLists } from './workers.ts'

const QUEUE = columns({
  name: column<string>(),
  paused: column<boolean | number>(),
  bounds: column<string | null>(),
  limit: column<string | null>('limit_name'),
  stripes: column<number>(),
  createdUs: column<number | null>('created'),
})

const SETTING = 'setting:'
const SET = `INSERT INTO sluice.store (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`

/** Every queue that a caller has ever named. */
export function* queues(access: Access): Reading<QueueRecord[]> {
  yield* ask(() => access.recordQueues())
  const rows = yield* all(access.db, `SELECT ${QUEUE.list} FROM sluice.queues ORDER BY name`)
  return rows
    .map(QUEUE.read)
    .filter(({ name }) => !name.startsWith(TICKETS))
    .map((queue) => ({
      ...queue,
      paused: Boolean(queue.paused),
      bounds: queue.bounds === null ? null : (JSON.parse(queue.bounds) as QueueBounds),
    }))
}

/** Stops or resumes the starts of a queue: no claim that began before continues after it. */
export function* pauseQueue(access: Access, queue: string, paused: boolean): Reading<void> {
  yield* ask(() => access.setQueue(queue, 'paused', paused))
  // Lanes of a paused queue block no others, and take their places again when it resumes.
  yield* wakeSharedWaitLists(access, (yield* now(access)).nowUs)
}

/** Makes all starts of a queue need a limit's bucket, or lifts that. */
export function* limitQueue(access: Access, queue: string, name: string | null): Reading<void> {
  yield* ask(() => access.setQueue(queue, 'limit_name', name))
}

/** Spreads the lanes of a queue over stripes. */
export function* stripeQueue(access: Access, queue: string, stripes: number): Reading<void> {
  yield* ask(() => access.setQueue(queue, 'stripes', stripes))
}

/** Bounds a queue, or lifts its bounds. */
export function* boundQueue(access: Access, queue: string, bounds: QueueBounds | null): Reading<void> {
  yield* ask(() => access.setQueue(queue, 'bounds', bounds && JSON.stringify(bounds)))
}

/** The names that count. */
const COUNTED: Readonly<Record<Named, string>> = {
  limits: 'SELECT DISTINCT name FROM sluice.limits WHERE true',
  queues: 'SELECT name FROM sluice.queues WHERE true',
  schedules: 'SELECT name FROM sluice.schedules WHERE true',
  workers: 'SELECT name FROM sluice.workers WHERE alive_until > $5',
}

/** Counts the names of one kind in a folder, and finds which of some names exist. */
export function* names(
  access: Access,
  kind: Named,
  folder: string,
  some: readonly string[],
  atMost: number,
): Reading<NamesFound> {
  if (kind === 'queues') yield* ask(() => access.recordQueues())
  // Names are compared byte by byte, and a slash stands right before 0: the index gives the range.
  const where = folder === '' ? 'strpos(name, $2) = 0 AND strpos(name, $4) = 0' : 'name > $2 AND name < $4'
  const values = folder === '' ? ['/', atMost, TICKETS] : [`${folder}/`, atMost, `${folder}0`]
  const rows = yield* all<[string | null, number]>(
    access.db,
    `SELECT NULL, count(*) FROM (${COUNTED[kind]} AND ${where} LIMIT $3) found
     UNION ALL SELECT DISTINCT name, 0::bigint FROM sluice.${kind} WHERE name = ANY ($1::text[])`,
    some,
    ...values,
    ...(kind === 'workers' ? [(yield* now(access)).nowUs] : []),
  )
  return {
    total: rows.find(([name]) => name === null)?.[1] ?? 0,
    among: rows.flatMap(([name]) => (name === null ? [] : [name])),
  }
}

/** Stores a setting, or deletes it. */
export function* keepSetting({ db }: Access, name: string, value: string | null): Reading<void> {
  if (value === null) yield* run(db, 'DELETE FROM sluice.store WHERE name = $1', SETTING + name)
  else yield* run(db, SET, SETTING + name, value)
}

/** Settings whose names begin with the prefix. */
export function* settings({ db }: Access, prefix: string): Reading<{ name: string; value: string }[]> {
  const rows = yield* all<[string, string]>(
    db,
    'SELECT name, value FROM sluice.store WHERE strpos(name, $1) = 1 ORDER BY name',
    SETTING + prefix,
  )
  return rows.map(([name, value]) => ({ name: name.slice(SETTING.length), value }))
}

/** Runs that ended since then; the index on the end of the retention gives their times. */
export function* endedRuns(
  { db, retention, queues: inQueues }: Access,
  sinceUs: number,
  queuePrefix = '',
): Reading<{ completed: number; discarded: number }> {
  const among = queuePrefix === '' ? '' : `AND ${inQueues((name) => `starts_with(${name}, $4)`)}`
  const ended = (state: number, place: string): string =>
    `(SELECT count(*) FROM sluice.jobs WHERE state = ${state} AND due > ${place} AND finished > $3 ${among})`
  const [completed, discarded] = (yield* get<[number, number]>(
    db,
    `SELECT ${ended(STATE.completed, '$1')}, ${ended(STATE.discarded, '$2')}`,
    sinceUs + retention.completedUs,
    sinceUs + retention.discardedUs,
    sinceUs,
    ...(queuePrefix === '' ? [] : [queuePrefix]),
  )) as [number, number]
  return { completed, discarded }
}
