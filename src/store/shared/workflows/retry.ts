import { type Arrival, DEADLINE_STEP } from '../../../jobs/workflow.ts'
import { ask, type Reading } from '../reading.ts'
import { type Access, get, isUuid, now, run } from '../sql.ts'
import { LIVE_STATES, STATE } from '../state.ts'
import type { FlowRow } from './flow-rows.ts'
import { storedFlowState } from '../stored-flows.ts'
import { lockFlows, saveFlows } from './flow-rows.ts'

type Answer = 'retried' | 'not_failed' | 'missing' | 'unknown_step'
type MainRow = [
  seq: number,
  queue: string | number,
  priority: number,
  maxAttempts: number,
  input: string,
  state: number,
]

const FIND = `SELECT seq FROM sluice.flows WHERE id = $1::uuid AND kind IN ('workflow', 'machine', 'graph')`
// One that ran while its flow failed was cancelled.
const MAIN = `SELECT seq, queue, coalesce(asked, priority), max_attempts, input, state FROM sluice.jobs
  WHERE flow = $1 AND node = 0 AND state IN (${STATE.discarded}, ${STATE.cancelled}) FOR UPDATE`
const SIDES = `SELECT count(*) FROM sluice.jobs WHERE flow = $1 AND node > 0 AND state IN (${LIVE_STATES}) AND coalesce(step, '') <> '${DEADLINE_STEP}'`
// Another flow may have its key by now.
const TAKEN = `SELECT 1 FROM sluice.flows f JOIN sluice.flows o ON o.name = f.name AND o.key = f.key AND o.state = ${storedFlowState('running')} WHERE f.seq = $1`
const STEP = 'SELECT at, input FROM sluice.flow_steps WHERE flow = $1 AND generation = $2 AND name = $3'
const FORGET_FAILED = `DELETE FROM sluice.flow_steps WHERE flow = $1 AND generation = $2 AND state IN ('failed', 'open', 'retrying')`
const FORGET_FROM = 'DELETE FROM sluice.flow_steps WHERE flow = $1 AND generation = $2 AND at >= $3'
const RETRY_FROM = `UPDATE sluice.flow_steps SET state = 'retrying', result = NULL, error = NULL, attempt = 0, finished = NULL WHERE at = $1`
// The plain run of a discarded job, as a manual retry of any job resets it.
const RESET = `UPDATE sluice.jobs SET attempt = 0, pushed_back = 0, cancelling = false, expires = NULL, finished = NULL, error = NULL, awaits = NULL,
    moves = moves + 1, booked = NULL, input = $2 WHERE seq = $1`

// The input of a deadline is its time in µs; flows that older versions started have none there.
const DEADLINE = `SELECT seq, queue, coalesce(asked, priority), max_attempts, input, state FROM sluice.jobs
  WHERE flow = $1 AND node > 0 AND step = '${DEADLINE_STEP}' AND state IN (${STATE.completed}, ${STATE.discarded}, ${STATE.cancelled}) FOR UPDATE`
const ENDS = { [STATE.completed]: 'completed', [STATE.discarded]: 'discarded', [STATE.cancelled]: 'cancelled' } as const

/** Runs a failed workflow flow again, from where it failed or from one of its steps. */
export function* retryFlow(access: Access, id: string, from: string | null): Reading<Answer> {
  const { db } = access
  const [seq] = (isUuid(id) ? yield* get<[number]>(db, FIND, id) : undefined) ?? []
  if (seq === undefined) return 'missing'
  const main = yield* get<MainRow>(db, MAIN, seq)
  const flow = (yield* lockFlows(access, [seq])).get(seq)
  const { nowUs } = yield* now(access)
  if (!flow) return 'missing'
  if (!main || flow.state !== 'failed' || (flow.dueUs !== null && flow.dueUs <= nowUs)) return 'not_failed'
  if (yield* get(db, TAKEN, seq)) return 'not_failed'
  const [job, queue, priority, maxAttempts, stored, ended] = main
  let input = stored
  if (from !== null) {
    const [at, before] = (yield* get<[number, string | null]>(db, STEP, seq, flow.generation, from)) ?? [null, null]
    if (at === null) return 'unknown_step'
    if (flow.kind === 'machine') {
      input = before ?? stored
      yield* run(db, FORGET_FROM, seq, flow.generation, at + 1)
      yield* run(db, RETRY_FROM, at)
    } else yield* run(db, FORGET_FROM, seq, flow.generation, at)
  }
  if (flow.kind !== 'machine' || from === null) yield* run(db, FORGET_FAILED, seq, flow.generation)
  // Its parent has continued after its end.
  if (flow.parent !== null) yield* run(db, 'UPDATE sluice.flows SET parent = NULL WHERE seq = $1', seq)
  yield* run(db, RESET, job, input)
  if (flow.kind === 'machine' && from === null) yield* ask(() => access.wakeJobs([job]))
  else yield* place(access, job, arrivalOf(access, queue, priority, maxAttempts))
  yield* armDeadline(access, flow)
  flow.state = 'running'
  flow.error = null
  flow.finishedUs = null
  flow.dueUs = null
  flow[ended === STATE.discarded ? 'discarded' : 'cancelled']--
  flow.open = (yield* get<[number]>(db, SIDES, seq))?.[0] ?? 0
  yield* saveFlows(access, [flow])
  return 'retried'
}

/** The flow has its whole time again, from now on. */
function* armDeadline(access: Access, flow: FlowRow): Reading<void> {
  const { db } = access
  const [seq, queue, priority, maxAttempts, input, ended] = (yield* get<MainRow>(db, DEADLINE, flow.seq)) ?? []
  const timeoutUs = Number(input ?? null)
  if (seq === undefined || queue === undefined || !(timeoutUs > 0)) return
  yield* run(db, RESET, seq, input as string)
  const arrival = arrivalOf(access, queue, priority as number, maxAttempts as number)
  yield* place(access, seq, { ...arrival, step: DEADLINE_STEP, delayUs: timeoutUs })
  flow[ENDS[ended as keyof typeof ENDS]]--
}

function arrivalOf(access: Access, queue: string | number, priority: number, maxAttempts: number): Arrival {
  return {
    step: null,
    uses: [],
    fairKey: null,
    share: 1,
    attempt: 0,
    delayUs: null,
    runAtMs: null,
    queue: access.queueName(queue),
    priority,
    maxAttempts,
  }
}

function* place(access: Access, seq: number, arrival: Arrival): Reading<void> {
  // Its level is computed with the pace of ageing.
  yield* ask(() => access.limits())
  yield* ask(() => access.placeJobs([{ seq, arrival, isNew: false, parked: null, input: null, kept: 0, bytes: 0 }]))
}
