import type { Statements } from '../../database/statements.ts'
import { inTransaction } from '../../database/postgres-transaction.ts'
import { laneKey } from '../../jobs/lane.ts'
import { CONTENDER } from '../shared/lane-fronts.ts'
import { endOverdue as writeEnds } from '../shared/limits.ts'
import { readAsync } from '../shared/reading.ts'
import type { Access } from '../shared/sql.ts'
import { advance } from './advance.ts'
import { announce, rejoin } from './announce.ts'
import { bucketId, openBuckets } from './buckets.ts'
import { countPermits, writeLimit } from './change-limit.ts'
import { type Context, readClock } from './context.ts'
import { eventWriting } from './event-log.ts'
import { currentLimits, readAll } from './limit-timelines.ts'
import { sharedQueue, viewKey } from './own.ts'
import { rehome } from './rehome.ts'
import { lockQueue, recordQueues, setQueue } from './queues.ts'
import { tellEnds } from '../shared/workflows/tell.ts'
import { FLEET, type StoredBucket } from '../shared/stored-bucket.ts'
import { STATE } from '../shared/state.ts'
import type { FlowNews } from '../../jobs/flow.ts'
import { insertMembers, placeJobs } from './workflows.ts'

const PLAIN_LANES = `SELECT ${CONTENDER.list} FROM sluice.lanes WHERE key = ANY ($1::text[]) AND fair IS NULL
  ORDER BY id LIMIT $2`
const FAIR_LANES = `SELECT ${CONTENDER.list} FROM sluice.lanes WHERE buckets = ARRAY[$1::bigint] AND fair IS NOT NULL
  ORDER BY id LIMIT $2`
const NEWEST_OF_FLOWS =
  'SELECT queue, seq, state FROM sluice.jobs WHERE flow IS NOT NULL ORDER BY flow DESC, node DESC LIMIT 20000'
const LANES_AT_MOST = 1000
const LEAVE_VIEWS = 'SELECT sluice.leave_views($1::bigint[], $2::text[], $3::bigint)'

// The server sends it with the commit, also to this process.
const TELL_CANCELLED = `SELECT pg_notify('sluice', 'tx cancelled ' || rtrim('sluice.', '.'))`

/** The access of shared logic to this store. */
export function accessOf(context: Context, db: Statements): Access {
  return {
    db,
    retention: context.retention,
    laneKey: 'key',
    now: () => readClock(context, db),
    queueName: (stored) => sharedQueue(stored as string),
    queues: (test) => test('queue'),
    inState,
    // The stored text is JSON without spaces, so that the beginning of a pair stands nowhere else in it.
    needs: (limit, key, place) =>
      `strpos(uses, ${place(key === null ? `${JSON.stringify([limit]).slice(0, -1)},` : JSON.stringify([limit, key]))}) > 0`,
    limitName: (stored) => stored,
    setQueue: (queue, column, value) => setQueue(db, queue, column, value),
    recordQueues: () => recordQueues(context, db),
    declared: context.declared,
    limits: () => currentLimits(context, db),
    readLimits: (generation) => readAll(db, generation),
    lockLimits: () => db.run(`SELECT pg_advisory_xact_lock(hashtext('sluice.limits'), 0)`),
    // The next transaction reads them: this one may yet be rolled back.
    keepLimits: () => undefined,
    writeLimit: (limit, timeline) => writeLimit(db, limit, timeline),
    // The next claims spread the lanes that writeLimit announces.
    changeScope: () => undefined,
    countPermits: (limit, limits, gains) => countPermits(db, limit, limits, gains),
    lockBuckets: (ids) => db.run('SELECT sluice.lock_buckets($1::bigint[])', ids),
    ofLimit: 'b.limit_name = $1',
    returnPermits: (ids) => db.run('SELECT sluice.return_permits($1::bigint[], sluice.now_us())', ids),
    tellCancelled: () => db.run(TELL_CANCELLED),
    wakeJobs: (seqs) => db.run('SELECT sluice.wake_jobs($1::bigint[])', seqs),
    placeJobs: (moves) => placeJobs(context, db, moves),
    insertMembers: (members) => insertMembers(context, db, members),
    leaveLanes: (seqs) => announce(db, seqs),
    rejoin: (seq, instant) => rejoin(db, seq, instant),
    rehome: (seqs, to) => rehome(context, db, seqs, to),
    endInFlow: (seq) => endInFlow(context, db, seq),
    reopen: (seq) => db.run('SELECT sluice.reopen($1::bigint)', seq),
    ownOf: 'b.limit_name = $1 AND b.worker <> 0',
    lanesOf: (bucket) => lanesOf(db, bucket),
    bucketId: (limit, key, worker) => bucketId(db, limit, key, worker),
    knownLimits: () => context.limits,
    openBuckets: (names) => openBuckets(context, db, names),
    lockQueue: (queue) => lockQueue(db, queue),
    unreadable: context.unreadable,
    lockSchedules: () => db.run(`SELECT pg_advisory_xact_lock(hashtext('sluice.schedules'), 0)`),
    events: eventWriting(db),
    bootId: context.clock.bootId,
    createViews: (queues) => db.run('SELECT sluice.adopt($1::text[])', queues),
    async dropViews(workers, queues, nowUs) {
      await db.run(LEAVE_VIEWS, workers, queues, nowUs)
      await db.run(
        'DELETE FROM sluice.buckets WHERE worker = ANY ($1::bigint[]) AND worker <> 0 AND lanes = 0',
        workers,
      )
    },
    suspendViews: (workers, queues, nowUs) => db.run(LEAVE_VIEWS, workers, queues, nowUs),
    wakeWaitLists: (buckets, nowUs) => db.run('SELECT sluice.wake_lines($1::bigint[], $2::bigint)', buckets, nowUs),
  }
}

/** The order keeps the planner with the index, also where it has no statistics. */
function inState(state: number, columns: string): string {
  if (state === STATE.pending) return `SELECT ${columns} FROM (${NEWEST_OF_FLOWS}) f WHERE state = ${state}`
  const order = state === STATE.available ? 'lane, priority DESC, seq' : 'due'
  return `SELECT ${columns} FROM sluice.jobs WHERE state = ${state} ORDER BY ${order}`
}

/** The lanes that need this bucket alone. A lane is named by its queue and its limits, and a view by its lane and worker. */
async function lanesOf(db: Statements, { id, limit, key, worker }: StoredBucket): Promise<number[][]> {
  const queues = await db.all<[string]>('SELECT unnest(sluice.queues_of($1))', id)
  const lanes = queues.map(([queue]) => laneKey(queue, [{ limit, key }], null))
  const keys = worker === FLEET ? lanes : lanes.map((lane) => viewKey(lane, worker))
  const plain = await db.all<number[]>(PLAIN_LANES, keys, LANES_AT_MOST)
  return [...plain, ...(await db.all<number[]>(FAIR_LANES, id, LANES_AT_MOST))].slice(0, LANES_AT_MOST)
}

/** Applies the end of a job to its flow, also to a workflow flow: its job is locked, and then the flow, in their order. */
async function endInFlow(context: Context, db: Statements, seq: number): Promise<FlowNews | undefined> {
  const news = (await advance(context, db, [seq])).get(seq)
  if ((await db.run('DELETE FROM sluice.flow_ends WHERE seq = $1', seq)) === 0) return news
  return (await readAsync(tellEnds(accessOf(context, db), [seq]))).byJob.get(seq)
}

/** Writes the ends of overrides that are over, if there are any. */
export async function endOverdue(context: Context, db: Statements): Promise<void> {
  const limits = await currentLimits(context, db)
  if (limits.nextEndUs > (await readClock(context, db)).nowUs) return
  await inTransaction(db, () => readAsync(writeEnds(accessOf(context, db))))
}
