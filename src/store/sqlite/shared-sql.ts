import { laneKey } from '../../jobs/lane.ts'
import { CONTENDER } from '../shared/lane-fronts.ts'
import { openEach } from '../shared/budgets/standing.ts'
import { readLimits } from '../shared/limit-changes.ts'
import { endOverdue as writeEnds } from '../shared/limits.ts'
import { readNow } from '../shared/reading.ts'
import type { Access } from '../shared/sql.ts'
import type { SqliteConnection } from '../../database/sqlite.ts'
import { STATE } from '../shared/state.ts'
import type { Timelines } from '../shared/timelines.ts'
import { columns, numbers, numbersOrNull, type RowOf } from '../shared/columns.ts'
import { advance } from './advance.ts'
import { rehome } from './rehome.ts'
import { rejoin } from './rejoin.ts'
import { reopen } from './reopen.ts'
import { bucketId } from './buckets.ts'
import { countPermits } from './change-limit.ts'
import { FLEET, type StoredBucket } from '../shared/stored-bucket.ts'
import { type Context, queueId } from './context.ts'
import { eventWriting } from './event-log.ts'
import { ownName, readName } from './own.ts'
import { sharedSql } from './portable-sql.ts'
import { setQueue } from './queues.ts'
import { spreadLanes } from './spread-lanes.ts'
import { dropViews } from './views.ts'
import { flowAccessOf } from './workflows.ts'

const WAKE = `UPDATE buckets SET wake_at = min(wake_at, ?) WHERE wake_at IS NOT NULL AND id IN (SELECT value FROM json_each(?))`

const OWN_OF = 'b.limit_name > ?1 || char(0) AND b.limit_name < ?1 || char(1)'
const PLACE = columns({ ...numbers('lane', 'priority'), ...numbersOrNull('expires') })
const PLAIN_LANE = `SELECT ${CONTENDER.list} FROM lanes WHERE key = ?`
const FAIR_LANES = `SELECT ${CONTENDER.list} FROM lanes WHERE buckets = ? AND fair IS NOT NULL LIMIT 1000`

const known = new WeakMap<Context, Access>()

/** The access of shared logic to this store, made once: each verb asks for it. */
export function accessOf(context: Context): Access {
  let access = known.get(context)
  if (!access) known.set(context, (access = newAccess(context)))
  return access
}

function newAccess(context: Context): Access {
  const { db, clock, policies } = context
  return {
    ...flowAccessOf(context),
    laneKey: 'id',
    queues: (test) => `queue IN (SELECT id FROM queues WHERE ${test('name')})`,
    inState,
    needs: (limit, key, place) => {
      const bucket = `b.limit_name = ${place(limit)}${key === null ? '' : ` AND b.key = ${place(key)}`}`
      return `EXISTS (SELECT 1 FROM lanes l CROSS JOIN json_each(l.buckets) e CROSS JOIN buckets b WHERE l.id = j.lane AND b.id = e.value AND ${bucket})`
    },
    limitName: (stored) => readName(stored).limit,
    setQueue: (queue, column, value) => setQueue(context, queue, column, value),
    recordQueues: () => undefined,
    declared: context.declared,
    limits: () => current(context),
    readLimits: (generation) => readNow(readLimits(sharedSql(db), generation)),
    lockLimits: () => undefined,
    keepLimits: (limits) => policies.keep(limits),
    writeLimit: () => undefined,
    changeScope: (limit, nowUs) => spreadLanes(context, limit, nowUs),
    countPermits: (limit, _, gains) => countPermits(context, limit, gains),
    ofLimit: `(b.limit_name = ?1 OR ${OWN_OF})`,
    rejoin: (seq, instant) => rejoin(context, { seq, ...placeOf(db, seq) }, instant),
    rehome: (seqs, to, nowUs) => rehome(context, seqs, to, nowUs),
    endInFlow: (seq, flow, instant) => advance(context, [seq], instant).get(flow),
    reopen: (_, flow, node) => reopen(context, flow, node),
    ownOf: OWN_OF,
    lanesOf: (bucket) => lanesOf(context, bucket),
    bucketId: (limit, key, worker) =>
      bucketId(context, worker === FLEET ? limit : ownName(limit, worker), key, clock.nowUs()),
    knownLimits: () => current(context),
    openBuckets: (names) => {
      const ids = names.map(({ limit, key }) => bucketId(context, limit, key, clock.nowUs()))
      return readNow(openEach(accessOf(context), ids))
    },
    lockQueue: (queue) => queueId(context, queue),
    unreadable: context.unreadable,
    lockSchedules: () => undefined,
    events: eventWriting(db),
    bootId: clock.bootId,
    // A worker creates its views at its first claim.
    createViews: () => undefined,
    dropViews: (workers, _, nowUs) => workers.forEach((worker) => dropViews(context, worker, nowUs)),
    suspendViews: () => undefined,
    wakeWaitLists: (buckets, nowUs) => db.run(WAKE, nowUs, JSON.stringify(buckets)),
  }
}

function current({ policies }: Context): Timelines {
  policies.refresh()
  return policies.current
}

/** Available jobs have an index of their own. */
function inState(state: number, list: string): string {
  if (state === STATE.available) return `SELECT ${list} FROM jobs INDEXED BY jobs_waiting WHERE state = ${state}`
  const by = (index: string, where: string): string =>
    `SELECT ${list} FROM jobs INDEXED BY ${index} WHERE ${where} AND state = ${state}`
  return `SELECT * FROM (${by('jobs_due', 'due IS NOT NULL')} UNION ALL ${by('jobs_undue', `due IS NULL AND state <> ${STATE.available}`)})`
}

function placeOf(db: SqliteConnection, seq: number): RowOf<typeof PLACE> {
  return PLACE.read(db.get(`SELECT ${PLACE.list} FROM jobs WHERE seq = ?`, seq) as readonly unknown[])
}

/** Each queue has at most one lane without a fair key, so its name finds it without a search. */
function lanesOf({ db }: Context, { id, limit, key }: StoredBucket): number[][] {
  const plain = db
    .all<[string]>('SELECT name FROM queues')
    .flatMap(([queue]) => db.all<number[]>(PLAIN_LANE, laneKey(queue, [{ limit, key }], null)))
  return [...plain, ...db.all<number[]>(FAIR_LANES, JSON.stringify([id]))]
}

/** Writes the ends of overrides that are over. */
export function endOverdue(context: Context): void {
  const { policies, clock } = context
  policies.refresh()
  if (policies.current.nextEndUs <= clock.nowUs()) readNow(writeEnds(accessOf(context)))
}
