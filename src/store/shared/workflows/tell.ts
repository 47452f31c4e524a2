import type { FlowNews } from '../../../jobs/flow.ts'
import type { JobEnd } from '../../../jobs/job-state.ts'
import { DEADLINE_STEP } from '../../../jobs/workflow.ts'
import { columns, numbers, numbersOrNull, type RowOf, texts, textsOrNull } from '../columns.ts'
import type { Reading } from '../reading.ts'
import { errorOf } from '../set-aside.ts'
import { type FlowAccess, all, now, run } from '../sql.ts'
import { STATE, stateName } from '../state.ts'
import { closeOpenSteps, type Ending } from './close-steps.ts'
import { type EndedFlow, endFlows, type FlowEnd, lockForEnds, retentionUs } from './end-flows.ts'
import { type FlowRow, type FlowRows, saveFlows } from './flow-rows.ts'
import { type Wakeup, wakeFlows } from './wake.ts'

const ENDED = columns({
  ...numbers('seq', 'flow', 'node', 'state', 'attempt', 'kept', 'bytes'),
  ...numbersOrNull('item', 'started', 'finished'),
  ...texts('id'),
  ...textsOrNull('step', 'result', 'error'),
})
type EndedJob = RowOf<typeof ENDED>

const ENDED_JOBS = `SELECT ${ENDED.list} FROM sluice.jobs
  WHERE seq = ANY ($1::bigint[]) AND flow IS NOT NULL AND state IN (${STATE.completed}, ${STATE.discarded}, ${STATE.cancelled}) ORDER BY seq`
// Ended jobs are kept as long as their flow.
const KEEP = 'UPDATE sluice.jobs SET due = NULL WHERE seq = ANY ($1::bigint[]) AND due IS NOT NULL'

/** News of flows that have ended. */
export interface EndNews {
  /** By the `seq` of each flow. */
  readonly byFlow: ReadonlyMap<number, FlowNews>
  /** By the `seq` of the job that ended the flow. */
  readonly byJob: ReadonlyMap<number, FlowNews>
}

/** Applies the ends of these jobs to their workflow flows. */
export function* tellEnds(access: FlowAccess, seqs: readonly number[]): Reading<EndNews> {
  const rows = (yield* all(access.db, ENDED_JOBS, seqs)).map((row) => ENDED.read(row))
  yield* run(access.db, KEEP, seqs)
  const ending = rows.filter(endsFlow).map(({ flow }) => flow)
  const flows = yield* lockForEnds(
    access,
    ending,
    rows.map(({ flow }) => flow),
  )
  const { nowUs } = yield* now(access)
  const ends = new Map<FlowRow, FlowEnd>()
  const endings: Ending[] = []
  for (const job of rows) {
    const flow = flows.get(job.flow)
    if (!flow) continue
    count(access, flow, job, nowUs)
    if (flow.state !== 'running') continue
    if (endsFlow(job)) ends.set(flow, endBy(job))
    else if (job.step !== DEADLINE_STEP && job.node > 0) endings.push(endingOf(flow, job))
  }
  const byFlow = (yield* applyEnds(access, flows, ends, endings, nowUs)).news
  const byJob = new Map<number, FlowNews>()
  for (const job of rows.filter(endsFlow)) {
    const news = byFlow.get(job.flow)
    if (news) byJob.set(job.seq, news)
  }
  return { byFlow, byJob }
}

/** The effect of ends on flows. */
export interface AppliedEnds {
  /** By the `seq` of each flow that ended by itself; with the news of those below it. */
  readonly news: Map<number, FlowNews>
  /** Ids of active jobs that were asked to end. */
  readonly asked: readonly string[]
}

/** Ends flows and steps, wakes the flows that wait for them, and saves all locked flows. */
export function* applyEnds(
  access: FlowAccess,
  flows: FlowRows,
  ends: ReadonlyMap<FlowRow, FlowEnd>,
  endings: readonly Ending[],
  nowUs: number,
): Reading<AppliedEnds> {
  const ended = yield* endFlows(access, flows, ends, nowUs)
  const closing = [
    ...endings.filter(({ flow }) => flow.state === 'running'),
    ...(yield* endingsOfChildren(access, flows, ended)),
  ]
  const stepped = yield* closeOpenSteps(access, closing)
  // A flow that waits for all ends goes on with the last one, even if that ended no step.
  const concerned = new Set(closing.map(({ flow }) => flow).filter((flow) => stepped.has(flow) || flow.open === 0))
  const wakeups = [...concerned].map((flow): Wakeup => ({ flow, ended: true, signal: null }))
  yield* wakeFlows(access, wakeups, nowUs)
  yield* saveFlows(access, flows.values())
  return {
    news: newsOfAll(ended, ends),
    asked: ended.flatMap(({ asked }) => asked),
  }
}

/** The main job ends its flow, and so does a discarded deadline. */
function endsFlow({ node, step, state }: EndedJob): boolean {
  return node === 0 || (step === DEADLINE_STEP && state === STATE.discarded)
}

function endBy({ state, error }: EndedJob): FlowEnd {
  const main = stateName(state) as JobEnd
  return { state: main === 'discarded' ? 'failed' : main, error: main === 'discarded' ? error : null, main }
}

function count(access: FlowAccess, flow: FlowRow, { node, step, state, kept, bytes }: EndedJob, nowUs: number): void {
  const end = stateName(state) as JobEnd
  flow[end]++
  if (node > 0) flow.kept += kept
  if (node > 0) flow.bytes += bytes
  if (node > 0 && step !== DEADLINE_STEP) flow.open = Math.max(0, flow.open - 1)
  // A straggler is kept for its own time, and the flow with it.
  if (flow.state !== 'running') flow.dueUs = Math.max(flow.dueUs ?? 0, nowUs + retentionUs(access, end))
}

function endingOf(flow: FlowRow, job: EndedJob): Ending {
  flow.events++
  const { node, step, item, state, result, error, attempt, started, finished } = job
  const end = stateName(state) as JobEnd
  return { flow, name: step ?? '', node, item, end, result, error, attempt, startedUs: started, finishedUs: finished }
}

/** The end of each attached child, as the end of its parent's step. */
function* endingsOfChildren(access: FlowAccess, flows: FlowRows, ended: readonly EndedFlow[]): Reading<Ending[]> {
  const children = ended.flatMap(({ flow, end }) => {
    const parent = flow.parent === null ? undefined : flows.get(flow.parent)
    return parent ? [{ flow, end, parent }] : []
  })
  if (children.length === 0) return []
  const results = yield* all<[flow: number, result: string | null, started: number | null]>(
    access.db,
    'SELECT flow, result, started FROM sluice.jobs WHERE flow = ANY ($1::bigint[]) AND node = 0',
    children.map(({ flow }) => flow.seq),
  )
  const mains = new Map(results.map(([flow, ...of]) => [flow, of]))
  return children.flatMap(({ flow, end, parent }) => {
    parent.open = Math.max(0, parent.open - 1)
    if (parent.state !== 'running') return []
    parent.events++
    const [result = null, startedUs = null] = mains.get(flow.seq) ?? []
    const name = flow.parentGeneration === parent.generation ? (flow.parentStep ?? '') : ''
    const how: JobEnd = end.state === 'failed' ? 'discarded' : end.state
    const { finishedUs, error } = flow
    const text = how === 'completed' ? result : null
    return [
      { flow: parent, name, node: 0, item: null, end: how, result: text, error, attempt: 1, startedUs, finishedUs },
    ]
  })
}

/** @param ended those above come first */
function newsOfAll(ended: readonly EndedFlow[], ends: ReadonlyMap<FlowRow, FlowEnd>): Map<number, FlowNews> {
  const below = new Map(ended.map(({ flow }): [number, FlowNews[]] => [flow.seq, []]))
  const news = new Map<number, FlowNews>()
  for (const each of ended.toReversed()) {
    const { flow } = each
    const own = newsOf(each, below.get(flow.seq) ?? [])
    if (ends.has(flow)) news.set(flow.seq, own)
    else if (flow.parent !== null) below.get(flow.parent)?.unshift(own)
  }
  return news
}

function newsOf({ flow, end, cancelled }: EndedFlow, below: readonly FlowNews[]): FlowNews {
  const { id, kind, name } = flow
  const error = end.state === 'failed' && end.error !== null ? { error: errorOf(end.error) } : {}
  return {
    id,
    kind,
    name,
    ended: end.state,
    activated: [],
    cancelled,
    discarded: [],
    ...(below.length > 0 && { below }),
    ...error,
  }
}
