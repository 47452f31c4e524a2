import type { JobEnd } from '../../../jobs/job-state.ts'
import type { FlowState, MovedJob } from '../../../jobs/flow.ts'
import { column, columns, numbers, texts } from '../columns.ts'
import { ask, type Reading } from '../reading.ts'
import { type FlowAccess, all, now, run } from '../sql.ts'
import { LIVE_STATES, STATE } from '../state.ts'
import { storedFlowState, STOPPED } from '../stored-flows.ts'
import { type FlowRow, type FlowRows, lockFlows } from './flow-rows.ts'

/** The end of a flow. */
export interface FlowEnd {
  readonly state: Exclude<FlowState, 'running'>
  /** JSON text of an error. */
  readonly error: string | null
  /** The end of its main job, if that waits now. */
  readonly main: JobEnd
}

/** A flow that ended, with its jobs that will not run. */
export interface EndedFlow {
  readonly flow: FlowRow
  readonly end: FlowEnd
  readonly cancelled: MovedJob[]
  /** Ids of active jobs that were asked to end. */
  readonly asked: string[]
}

const LIVE = columns({
  ...numbers('seq', 'flow', 'node', 'state'),
  ...texts('id', 'task'),
  queue: column<string | number>(),
})
/** Waiting and running jobs, which come before their flow in the order of locks. */
const LOCK_AT_WORK = `SELECT seq FROM sluice.jobs WHERE flow = ANY ($1::bigint[])
  AND state IN (${STATE.scheduled}, ${STATE.available}, ${STATE.active}, ${STATE.retryable}) ORDER BY seq FOR UPDATE`
const LIVE_JOBS = `SELECT ${LIVE.list} FROM sluice.jobs WHERE flow = ANY ($1::bigint[]) AND state IN (${LIVE_STATES}) ORDER BY flow, node FOR UPDATE`
const ASK = 'UPDATE sluice.jobs SET cancelling = true WHERE seq = ANY ($1::bigint[])'
const RUNNING = storedFlowState('running')
const BELOW = `WITH RECURSIVE below (seq) AS (
    SELECT seq FROM sluice.flows WHERE parent = ANY ($1::bigint[]) AND state = ${RUNNING}
    UNION SELECT f.seq FROM below b CROSS JOIN sluice.flows f WHERE f.parent = b.seq AND f.state = ${RUNNING})
  SELECT seq FROM below ORDER BY seq`
const IN_LANES = `SELECT seq FROM sluice.jobs WHERE seq = ANY ($1::bigint[]) AND state = ${STATE.available} ORDER BY seq`
const END_WAITING =
  'UPDATE sluice.jobs SET state = $2, finished = $3, due = NULL, error = $4 WHERE seq = ANY ($1::bigint[])'
const HELD = 'SELECT held FROM sluice.flows WHERE seq = ANY ($1::bigint[]) AND held IS NOT NULL'

/**
 * Locks what the ends of these flows touch, in the order of locks: their jobs, the buckets of their permits, and the
 * flows with their parents and all below them.
 */
export function* lockForEnds(
  access: FlowAccess,
  ending: readonly number[],
  others: readonly number[],
): Reading<FlowRows> {
  const { db } = access
  if (ending.length === 0) return yield* lockFlows(access, others)
  const below = (yield* all<[number]>(db, BELOW, ending)).map(([seq]) => seq)
  const closing = [...ending, ...below]
  yield* all(db, LOCK_AT_WORK, closing)
  const held = (yield* all<[string]>(db, HELD, closing)).flatMap(([text]) => JSON.parse(text) as number[])
  if (held.length > 0) yield* ask(() => access.lockBuckets(held))
  const parents = yield* all<[number]>(
    db,
    'SELECT parent FROM sluice.flows WHERE seq = ANY ($1::bigint[]) AND parent IS NOT NULL',
    ending,
  )
  return yield* lockFlows(access, [...others, ...closing, ...parents.map(([seq]) => seq)])
}

/**
 * Ends running flows that are locked: their permits return, jobs that wait are cancelled, active ones are asked to end,
 * and attached children are cancelled likewise, with all below them.
 */
export function* endFlows(
  access: FlowAccess,
  flows: FlowRows,
  ends: ReadonlyMap<FlowRow, FlowEnd>,
  nowUs: number,
): Reading<EndedFlow[]> {
  const ended: EndedFlow[] = []
  for (let level = new Map(ends); level.size > 0; level = yield* childrenOf(access, flows, level)) {
    const here = [...level].map(([flow, end]) => ({ flow, end, cancelled: [], asked: [] }))
    for (const { flow, end } of here) {
      flow.state = end.state
      flow.error = end.error
      flow.finishedUs = nowUs
      flow.dueUs = nowUs + retentionUs(access, end.state)
    }
    yield* stopJobs(access, here)
    const held = here.flatMap(({ flow }) => (flow.held === null ? [] : (JSON.parse(flow.held) as number[])))
    for (const { flow } of here) flow.held = null
    if (held.length > 0) yield* ask(() => access.returnPermits(held))
    ended.push(...here)
  }
  return ended
}

/** How long a flow is kept that ended in this state. */
export function retentionUs({ retention }: FlowAccess, state: FlowState | JobEnd): number {
  if (state === 'completed') return retention.completedUs
  return state === 'cancelled' ? retention.cancelledUs : retention.discardedUs
}

function* childrenOf(
  access: FlowAccess,
  flows: FlowRows,
  level: ReadonlyMap<FlowRow, FlowEnd>,
): Reading<Map<FlowRow, FlowEnd>> {
  const seqs = yield* all<[number]>(
    access.db,
    `SELECT seq FROM sluice.flows WHERE parent = ANY ($1::bigint[]) AND state = ${RUNNING}`,
    [...level.keys()].map(({ seq }) => seq),
  )
  const children = seqs.map(([seq]) => seq)
  yield* lockFlows(access, children, flows)
  const end: FlowEnd = { state: 'cancelled', error: STOPPED, main: 'cancelled' }
  return new Map(
    children.flatMap((seq) => {
      const flow = flows.get(seq)
      return flow?.state === 'running' ? [[flow, end] as const] : []
    }),
  )
}

function* stopJobs(access: FlowAccess, ended: readonly EndedFlow[]): Reading<void> {
  const byFlow = new Map(ended.map((each) => [each.flow.seq, each]))
  const active: number[] = []
  const waiting: { readonly seq: number; readonly end: JobEnd; readonly error: string | null }[] = []
  for (const row of yield* all(access.db, LIVE_JOBS, [...byFlow.keys()])) {
    const { seq, flow: of, node, state, id, task, queue } = LIVE.read(row)
    const { flow, end, cancelled, asked } = byFlow.get(of) as EndedFlow
    if (state === STATE.active) {
      active.push(seq)
      asked.push(id)
      continue
    }
    const how = node === 0 ? end.main : 'cancelled'
    waiting.push({ seq, end: how, error: node === 0 ? end.error : STOPPED })
    flow[how]++
    if (node > 0) flow.open = Math.max(0, flow.open - 1)
    cancelled.push({ id, task, queue: access.queueName(queue) })
  }
  yield* askToEnd(access, active)
  const groups = new Map<string, typeof waiting>()
  for (const each of waiting) {
    const group = groups.get(`${each.end} ${each.error}`)
    if (group) group.push(each)
    else groups.set(`${each.end} ${each.error}`, [each])
  }
  for (const group of groups.values()) {
    const [{ end, error }] = group as [(typeof waiting)[number]]
    yield* endWaiting(
      access,
      group.map(({ seq }) => seq),
      end,
      error,
    )
  }
}

/** Asks active jobs to end. The processes that run them learn it with the commit, and not by their next heartbeat. */
export function* askToEnd(access: FlowAccess, seqs: readonly number[]): Reading<void> {
  if (seqs.length === 0) return
  yield* run(access.db, ASK, seqs)
  yield* ask(() => access.tellCancelled())
}

/** Ends jobs that have not started. They are kept as long as their flow. */
export function* endWaiting(
  access: FlowAccess,
  seqs: readonly number[],
  end: JobEnd,
  error: string | null,
): Reading<void> {
  const { db } = access
  const { nowUs } = yield* now(access)
  const inLanes = yield* all<[number]>(db, IN_LANES, seqs)
  yield* run(db, END_WAITING, seqs, STATE[end], nowUs, error)
  // Only now, so that no lane gets another of these jobs as its next head.
  if (inLanes.length > 0)
    yield* ask(() =>
      access.leaveLanes(
        inLanes.map(([seq]) => seq),
        nowUs,
      ),
    )
}
