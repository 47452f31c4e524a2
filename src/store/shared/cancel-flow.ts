import type { FlowKind, MovedJob } from '../../jobs/flow.ts'
import type { FlowCancelAnswer } from '../contract/flows.ts'
import { Again } from './cancel.ts'
import { column, columns, numbers } from './columns.ts'
import { ask, type Reading } from './reading.ts'
import { type Access, all, get, isUuid, now, run } from './sql.ts'
import { STATE } from './state.ts'
import { flowStateName, storedFlowState } from './stored-flows.ts'
import { cancelWorkflow } from './workflows/cancel.ts'

const FLOW = columns({ ...numbers('state', 'total'), kind: column<FlowKind>(), name: column<string | null>() })
const LOCK = `SELECT ${FLOW.list} FROM sluice.flows WHERE seq = $1 FOR UPDATE`
/** Waiting and running jobs, which come before their flow in the order of locks. */
const AT_WORK = `FROM sluice.jobs WHERE flow = $1
  AND state IN (${STATE.scheduled}, ${STATE.available}, ${STATE.active}, ${STATE.retryable})`
const IN_LANES = `SELECT seq FROM sluice.jobs WHERE flow = $1 AND state = ${STATE.available}`
const CANCEL = `UPDATE sluice.jobs SET state = ${STATE.cancelled}, finished = $2, due = NULL WHERE flow = $1
  AND state IN (${STATE.scheduled}, ${STATE.available}, ${STATE.retryable}, ${STATE.pending}) RETURNING id, task, queue, node`
const REQUEST = `UPDATE sluice.jobs SET cancelling = true WHERE flow = $1 AND state = ${STATE.active} RETURNING id`
const END = `UPDATE sluice.flows SET state = ${storedFlowState('cancelled')}, cancelled = cancelled + $2, finished = $3, due = $4
  WHERE seq = $1`

const IS_WORKFLOW = `SELECT 1 FROM sluice.flows WHERE seq = $1 AND kind IN ('workflow', 'machine', 'graph')`

/** Ends a flow: waiting jobs are cancelled, active ones are asked to end. */
export function* cancelFlow(access: Access, id: string): Reading<FlowCancelAnswer> {
  const { db } = access
  const find = 'SELECT seq FROM sluice.flows WHERE id = $1::uuid'
  const [seq] = (isUuid(id) ? yield* get<[number]>(db, find, id) : undefined) ?? []
  if (seq !== undefined && (yield* get(db, IS_WORKFLOW, seq))) return yield* cancelWorkflow(access, seq)
  const flow = seq === undefined ? undefined : yield* lockAll(access, seq)
  if (seq === undefined || !flow) return { kind: 'missing' }
  const { kind, name, state, total } = flow
  if (state !== storedFlowState('running')) return { kind: 'finished', state: flowStateName(state) }
  const { nowUs } = yield* now(access)
  const inLanes = yield* all<[number]>(db, IN_LANES, seq)
  const rows = yield* all<[...MovedRow, node: number]>(db, CANCEL, seq, nowUs)
  const lanes = inLanes.map(([job]) => job)
  // Only now, so that no lane gets another of these jobs as its next head.
  yield* ask(() => access.leaveLanes(lanes, nowUs))
  const requested = (yield* all<[string]>(db, REQUEST, seq)).map(([job]) => job)
  const nodes = rows.filter((row) => row[3] < total).length
  yield* run(db, END, seq, nodes, nowUs, nowUs + access.retention.cancelledUs)
  const cancelled = rows.map((row) => movedJob(access, row))
  const news = { id, kind, name, ended: 'cancelled', activated: [], cancelled, discarded: [] } as const
  return { kind: 'cancelled', news, requested }
}

type MovedRow = readonly [id: string, task: string, queue: string | number]

function movedJob({ queueName }: Access, [id, task, queue]: readonly [...MovedRow, ...unknown[]]): MovedJob {
  return { id, task, queue: queueName(queue) }
}

/**
 * Locks the waiting and running jobs of a flow, then the flow. Jobs that started meanwhile are locked without waiting,
 * or the transaction starts again.
 */
function* lockAll({ db }: Access, seq: number): Reading<ReturnType<typeof FLOW.read> | undefined> {
  yield* get(db, `SELECT count(*) FROM (SELECT 1 ${AT_WORK} ORDER BY seq FOR UPDATE) j`, seq)
  const flow = FLOW.read(yield* get(db, LOCK, seq))
  const [had] = (yield* get<[number]>(
    db,
    `SELECT count(*) FROM (SELECT 1 ${AT_WORK} FOR UPDATE SKIP LOCKED) j`,
    seq,
  )) ?? [0]
  const [left] = (yield* get<[number]>(db, `SELECT count(*) ${AT_WORK}`, seq)) ?? [0]
  if (left > had) throw new Again()
  return flow
}
