import {
  callbackOf,
  callbacksDue,
  consequence,
  type FlowKind,
  type FlowNews,
  type FlowState,
  isWorkflow,
  MAX_PARENT_RESULTS_BYTES,
  type MovedJob,
  stateOf,
} from '../../jobs/flow.ts'
import { flowStateName, STOPPED, storedFlowState, TOO_LARGE } from '../shared/stored-flows.ts'
import { column, columns, numbers } from '../shared/columns.ts'
import { begin } from './begin.ts'
import { type Context, queueName } from './context.ts'
import { bytesBefore } from './parent-results.ts'
import { isEnd, STATE, stateName } from '../shared/state.ts'
import type { Instant } from '../../jobs/series.ts'
import { readNow } from '../shared/reading.ts'
import { tellEnds } from '../shared/workflows/tell.ts'
import { flowAccessOf } from './workflows.ts'

/** The columns of a flow that the end of its jobs changes. */
export interface StoredFlow {
  readonly seq: number
  readonly id: string
  readonly kind: FlowKind
  readonly name: string | null
  state: FlowState
  readonly total: number
  readonly edges: number
  completed: number
  discarded: number
  cancelled: number
  bytes: number
  finishedUs: number | null
  dueUs: number | null
}

const FLOW_ROW = columns({
  ...numbers('state', 'total', 'edges', 'completed', 'discarded', 'cancelled', 'bytes'),
  id: column<string>(),
  kind: column<FlowKind>(),
  name: column<string | null>(),
  finishedUs: column<number | null>('finished'),
  dueUs: column<number | null>('due'),
})

type EndedRow = [flow: number, node: number, state: number, bytes: number | null, seq: number]
type MovedRow = [id: string, task: string, queue: number]
type NextRow = [...MovedRow, seq: number, node: number, waits: number, plan: string]

const FLOW = `SELECT ${FLOW_ROW.list} FROM flows WHERE seq = ?`
const SAVE =
  'UPDATE flows SET state = ?, completed = ?, discarded = ?, cancelled = ?, bytes = ?, finished = ?, due = ? WHERE seq = ?'
// Ended jobs are kept as long as their flow.
const ENDED = `UPDATE jobs SET due = NULL FROM json_each(?) e WHERE jobs.seq = e.value RETURNING flow, node, state, octet_length(result), seq`
const RELEASE = `UPDATE jobs SET waits = waits - 1 FROM flow_edges e
  WHERE e.flow = ?1 AND e.before = ?2 AND jobs.flow = ?1 AND jobs.node = e.node AND jobs.state = ${STATE.pending}
  RETURNING id, task, queue, seq, jobs.node, waits, plan`
const BEHIND = `WITH RECURSIVE behind (node) AS (SELECT node FROM flow_edges WHERE flow = ?1 AND before = ?2
    UNION SELECT e.node FROM behind had CROSS JOIN flow_edges e ON e.flow = ?1 AND e.before = had.node)`
const STOP = `${BEHIND} UPDATE jobs SET state = ${STATE.cancelled}, finished = ?3, error = ?4
  WHERE flow = ?1 AND node IN (SELECT node FROM behind) AND state = ${STATE.pending} RETURNING id, task, queue`
const DISCARD = `UPDATE jobs SET state = ${STATE.discarded}, finished = ?, error = ? WHERE seq = ? RETURNING input`
const CALLBACKS = `SELECT id, task, queue, seq, node, waits, plan FROM jobs WHERE flow = ? AND node >= ? AND state = ${STATE.pending} ORDER BY node`

/**
 * Applies the end of these jobs to their flows, and returns the news by flow number. Flows that merely continue have
 * none.
 */
export function advance(context: Context, seqs: readonly number[], instant: Instant): Map<number, FlowNews> {
  const news = new Map<number, FlowNews>()
  if (seqs.length === 0) return news
  const ended = new Map<number, EndedRow[]>()
  for (const row of context.db.all<EndedRow>(ENDED, JSON.stringify(seqs))) {
    const rows = ended.get(row[0])
    if (rows) rows.push(row)
    else ended.set(row[0], [row])
  }
  const ofWorkflows: number[] = []
  for (const [seq, rows] of ended) {
    const flow = loadFlow(context, seq)
    if (flow && isWorkflow(flow.kind)) {
      ofWorkflows.push(...rows.map((row) => row[4]))
      continue
    }
    const told = flow && new Advance(context, flow, instant).run(rows)
    if (told) news.set(seq, told)
  }
  if (ofWorkflows.length === 0) return news
  return new Map([...news, ...readNow(tellEnds(flowAccessOf(context), ofWorkflows)).byFlow])
}

/** A flow by its number; null: its retention is over. */
export function loadFlow(context: Context, seq: number): StoredFlow | null {
  const row = FLOW_ROW.read(context.db.get(FLOW, seq))
  return row ? { ...row, seq, state: flowStateName(row.state) } : null
}

/** Writes a changed flow. */
export function saveFlow(context: Context, flow: StoredFlow): void {
  const { state, completed, discarded, cancelled, bytes, finishedUs, dueUs, seq } = flow
  context.db.run(SAVE, storedFlowState(state), completed, discarded, cancelled, bytes, finishedUs, dueUs, seq)
}

/** A moved job in an event. */
function moved(context: Context, [id, task, queue]: readonly [string, string, number, ...unknown[]]): MovedJob {
  return { id, task, queue: queueName(context, queue) }
}

/** One flow, some of whose jobs have ended. */
class Advance {
  readonly #context: Context
  readonly #flow: StoredFlow
  readonly #instant: Instant
  readonly #activated: MovedJob[] = []
  readonly #cancelled: MovedJob[] = []
  readonly #discarded: (MovedJob & { readonly input: string })[] = []
  /** Ended nodes whose dependents have yet to be updated. */
  readonly #open: { readonly node: number; readonly state: number }[] = []

  constructor(context: Context, flow: StoredFlow, instant: Instant) {
    this.#context = context
    this.#flow = flow
    this.#instant = instant
  }

  run(rows: readonly EndedRow[]): FlowNews | null {
    const flow = this.#flow
    const ran = flow.state === 'running'
    for (const [, node, state, bytes] of rows) {
      if (node < flow.total) {
        this.#count(node, state)
        flow.bytes += bytes ?? 0
      }
      // A callback, or a straggler of a cancelled flow, is kept for its own time, and the flow with it.
      if (!ran) flow.dueUs = Math.max(flow.dueUs ?? 0, this.#instant.nowUs + this.#retentionUs(state))
    }
    if (ran) this.#goOn()
    saveFlow(this.#context, flow)
    const ended = ran && flow.state !== 'running' ? flow.state : null
    const [activated, cancelled, discarded] = [this.#activated, this.#cancelled, this.#discarded]
    if (ended === null && activated.length + cancelled.length + discarded.length === 0) return null
    return { id: flow.id, kind: flow.kind, name: flow.name, ended, activated, cancelled, discarded }
  }

  #count(node: number, state: number): void {
    if (!isEnd(state)) return
    const end = stateName(state) as 'completed' | 'discarded' | 'cancelled'
    this.#flow[end]++
    this.#open.push({ node, state })
  }

  #goOn(): void {
    const flow = this.#flow
    if (flow.edges > 0) {
      for (let next = this.#open.pop(); next; next = this.#open.pop()) {
        const end = stateName(next.state) as 'completed' | 'discarded' | 'cancelled'
        if (consequence(end) === 'release') this.#release(next.node)
        else this.#stop(next.node)
      }
    }
    const state = stateOf(flow)
    if (state === 'running') return
    flow.state = state
    flow.finishedUs = this.#instant.nowUs
    const { completedUs, discardedUs } = this.#context.retention
    flow.dueUs = this.#instant.nowUs + (state === 'completed' ? completedUs : discardedUs)
    this.#callBack()
  }

  /** Starts the nodes that waited for this node alone. */
  #release(node: number): void {
    const { seq } = this.#flow
    for (const row of this.#context.db.all<NextRow>(RELEASE, seq, node)) if (row[5] === 0) this.#activate(row)
  }

  #activate(row: NextRow): void {
    const { db } = this.#context
    const [, , , seq, node, , plan] = row
    const flow = this.#flow
    if (flow.bytes > MAX_PARENT_RESULTS_BYTES && node < flow.total) {
      if (bytesBefore(this.#context, flow.seq, node) > MAX_PARENT_RESULTS_BYTES) {
        const [input] = db.get<[string]>(DISCARD, this.#instant.nowUs, TOO_LARGE, seq) as [string]
        this.#discarded.push({ ...moved(this.#context, row), input })
        return this.#count(node, STATE.discarded)
      }
    }
    begin(this.#context, seq, plan, this.#instant)
    this.#activated.push(moved(this.#context, row))
  }

  /** Cancels the nodes that wait for this node, directly or not. */
  #stop(node: number): void {
    const { seq } = this.#flow
    const rows = this.#context.db.all<MovedRow>(STOP, seq, node, this.#instant.nowUs, STOPPED)
    this.#flow.cancelled += rows.length
    for (const row of rows) this.#cancelled.push(moved(this.#context, row))
  }

  #callBack(): void {
    const { seq, total, state, kind } = this.#flow
    if (kind !== 'batch') return
    const due = callbacksDue(state)
    for (const row of this.#context.db.all<NextRow>(CALLBACKS, seq, total)) {
      const callback = callbackOf(row[4], total)
      if (callback && due.includes(callback)) this.#activate(row)
      else {
        this.#context.db.run(
          `UPDATE jobs SET state = ${STATE.cancelled}, finished = ?, error = ? WHERE seq = ?`,
          this.#instant.nowUs,
          STOPPED,
          row[3],
        )
        this.#cancelled.push(moved(this.#context, row))
      }
    }
  }

  #retentionUs(state: number): number {
    const { completedUs, cancelledUs, discardedUs } = this.#context.retention
    return state === STATE.completed ? completedUs : state === STATE.cancelled ? cancelledUs : discardedUs
  }
}
