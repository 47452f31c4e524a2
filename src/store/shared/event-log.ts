import { FLOW_STATES, type FlowKind, type FlowState } from '../../jobs/flow.ts'
import type { EventPage, StoredChange } from '../contract/event-log.ts'
import { column, columns, numbers, numbersOrNull, type RowOf, texts, textsOrNull } from './columns.ts'
import { ask, type Reading } from './reading.ts'
import { errorOf } from './set-aside.ts'
import { type Access, all, get, now, run } from './sql.ts'
import { stateName } from './state.ts'

/** The most changes that are kept for a reader that falls behind. */
const EVENTS_KEPT = 10_000

const JOIN = `INSERT INTO sluice.event_readers (id, position, until) VALUES ($1, $2, $3)
  ON CONFLICT (id) DO UPDATE SET position = excluded.position, until = excluded.until, behind = false`
const KEEP = 'UPDATE sluice.event_readers SET position = $2, until = $3, behind = false WHERE id = $1'
const CHANGE = columns({
  ...numbersOrNull('id', 'was', 'jobs', 'created', 'ready', 'since', 'started', 'due'),
  ...numbers('state', 'attempt'),
  ...texts('item'),
  ...textsOrNull('name', 'kind', 'error'),
  queue: column<string | number | null>(),
  failed: column<number | boolean>(),
})

/** Registers a reader, and has changes written. */
export function* joinEvents(access: Access, reader: string, leaseUs: number): Reading<string | null> {
  const { db, events } = access
  yield* ask(() => events.lock(true))
  if (!(yield* ask(() => events.write(true)))) return null
  const { nowUs } = yield* now(access)
  const [position] = (yield* get<[string]>(db, `SELECT ${events.position}`)) as [string]
  yield* run(db, JOIN, reader, position, nowUs + leaseUs)
  return position
}

/** Reads the changes behind a position: one statement, so that the next position belongs to them. */
export function* readEvents({ db, events, queueName }: Access, position: string): Reading<EventPage> {
  const rows = yield* all<[string, ...unknown[]]>(
    db,
    `SELECT ${events.position} AS next, ${CHANGE.of('e')} FROM (SELECT 1 AS one) o
     LEFT JOIN (SELECT e.* FROM sluice.events e WHERE ${events.behind('$1')} ORDER BY e.id DESC LIMIT ${EVENTS_KEPT + 1}) e
     ON e.id > 0 ORDER BY e.id`,
    position,
  )
  const isCut = rows.length > EVENTS_KEPT
  const changes = rows
    .slice(isCut ? 1 : 0)
    .map(([, ...row]) => CHANGE.read(row))
    .filter(({ id }) => id !== null)
    .map((fields) => changeOf(fields, queueName))
  return { changes, position: rows[0]?.[0] ?? position, isCut }
}

/** Extends a reader's lease, and notes what it has read. */
export function* keepEvents(
  access: Access,
  reader: string,
  position: string,
  leaseUs: number,
): Reading<'kept' | 'behind' | 'gone'> {
  const { db } = access
  const row = yield* get<[number | boolean, number]>(
    db,
    'SELECT behind, until FROM sluice.event_readers WHERE id = $1 FOR UPDATE',
    reader,
  )
  if (!row) return 'gone'
  const { nowUs } = yield* now(access)
  // Changes may be deleted once a lease is over.
  const isBehind = Boolean(row[0]) || row[1] < nowUs
  yield* run(db, KEEP, reader, position, nowUs + leaseUs)
  yield* pruneEvents(access)
  return isBehind ? 'behind' : 'kept'
}

/** Ends a reader. */
export function* leaveEvents(access: Access, reader: string): Reading<void> {
  yield* ask(() => access.events.lock(true))
  yield* run(access.db, 'DELETE FROM sluice.event_readers WHERE id = $1', reader)
  yield* pruneEvents(access)
}

/** Ends readers whose lease is over, and deletes what all others have read, or what is too much. */
export function* pruneEvents(access: Access): Reading<void> {
  const { db, events } = access
  const some = yield* get(db, 'SELECT 1 FROM sluice.event_readers LIMIT 1')
  if (!some && !(yield* ask(() => events.isOn()))) return
  if (!(yield* ask(() => events.lock(false)))) return
  const { nowUs } = yield* now(access)
  yield* run(db, 'DELETE FROM sluice.event_readers WHERE until < $1', nowUs)
  if (!(yield* get(db, 'SELECT 1 FROM sluice.event_readers LIMIT 1'))) {
    if (yield* ask(() => events.write(false))) yield* run(db, 'DELETE FROM sluice.events')
    return
  }
  const unread = `SELECT 1 FROM sluice.event_readers r WHERE ${events.behind('r.position')}`
  yield* run(db, `DELETE FROM sluice.events AS e WHERE NOT EXISTS (${unread})`)
  yield* cutEvents(access)
}

/** Deletes the oldest changes beyond the bound, and marks the readers that have not read them. */
function* cutEvents({ db, events }: Access): Reading<void> {
  const [position, last] = (yield* get<[string, number | null]>(
    db,
    `SELECT ${events.position}, (SELECT id FROM sluice.events ORDER BY id DESC LIMIT 1 OFFSET ${EVENTS_KEPT})`,
  )) as [string, number | null]
  if (last === null) return
  const cut = `SELECT 1 FROM sluice.events e WHERE e.id <= $1 AND ${events.behind('event_readers.position')}`
  yield* run(db, `UPDATE sluice.event_readers SET behind = true WHERE EXISTS (${cut})`, last)
  // Changes that have become visible since are left for the next time, since the readers are not marked for them.
  yield* run(db, `DELETE FROM sluice.events AS e WHERE e.id <= $1 AND NOT (${events.behind('$2')})`, last, position)
}

/** Deletes all changes, and tells the readers that they have missed some. */
export function* clearEvents({ db }: Access): Reading<void> {
  yield* run(db, 'UPDATE sluice.event_readers SET behind = true')
  yield* run(db, 'DELETE FROM sluice.events')
}

function changeOf(fields: RowOf<typeof CHANGE>, queueName: Access['queueName']): StoredChange {
  const { item: id, name, queue, kind, was, state, attempt, failed, error } = fields
  if (queue === null)
    return {
      of: 'flow',
      id,
      kind: kind as FlowKind,
      name,
      was: was === null ? null : (FLOW_STATES[was] as FlowState),
      state: FLOW_STATES[state] as FlowState,
      jobs: fields.jobs ?? 0,
      error: error === null ? null : errorOf(error),
    }
  return {
    of: 'job',
    id,
    task: name ?? '',
    queue: queueName(queue),
    was: was === null ? null : stateName(was),
    state: stateName(state),
    attempt,
    createdUs: fields.created ?? 0,
    readyUs: fields.ready ?? 0,
    sinceUs: fields.since ?? 0,
    startedUs: fields.started,
    dueUs: fields.due,
    hasFailed: Boolean(failed),
    error: error === null ? null : errorOf(error),
  }
}
