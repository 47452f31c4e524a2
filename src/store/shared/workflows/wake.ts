import { column, columns, numbers } from '../columns.ts'
import { ask, type Reading } from '../reading.ts'
import { type FlowAccess, all, run } from '../sql.ts'
import { STATE } from '../state.ts'
import type { FlowRow } from './flow-rows.ts'

/** The wait of a parked main job. `attempt`: its attempts when it was parked, which a later run raises. */
export interface Awaits {
  readonly signals: readonly string[]
  readonly ends: 'any' | 'all' | 'none'
  readonly attempt: number
}

/** The news that may wake a flow's main job. */
export interface Wakeup {
  readonly flow: FlowRow
  /** A side job or a child has ended. */
  readonly ended: boolean
  /** The name of a signal that has come; null: none has. */
  readonly signal: string | null
}

/** From so many open side jobs on, ends wake a flow only now and then. */
const WIDE = 100
const WIDE_EVERY_US = 50_000

const PARKED = columns({
  ...numbers('seq', 'flow', 'attempt'),
  pushedBack: column<number>('pushed_back'),
  awaits: column<string>(),
})
const MAIN = `SELECT ${PARKED.list} FROM sluice.jobs WHERE flow = ANY ($1::bigint[]) AND node = 0 AND state IN (${STATE.pending}, ${STATE.retryable})
  AND awaits IS NOT NULL ORDER BY seq FOR UPDATE`
const SOON = `UPDATE sluice.jobs SET state = ${STATE.retryable}, due = CASE WHEN due < $2 THEN due ELSE $2 END WHERE seq = ANY ($1::bigint[])`

/** Wakes the main jobs that wait for one of these; the flows are locked. Returns the flows whose job was woken. */
export function* wakeFlows(
  access: FlowAccess,
  wakeups: readonly Wakeup[],
  nowUs: number,
): Reading<ReadonlySet<number>> {
  const woken = new Set<number>()
  if (wakeups.length === 0) return woken
  const rows = yield* all(
    access.db,
    MAIN,
    wakeups.map(({ flow }) => flow.seq),
  )
  const byFlow = new Map(wakeups.map((wakeup) => [wakeup.flow.seq, wakeup]))
  const now: number[] = []
  const soon: number[] = []
  for (const { seq, flow, attempt, pushedBack, awaits } of rows.map((row) => PARKED.read(row))) {
    const how = wakes(JSON.parse(awaits) as Awaits, byFlow.get(flow) as Wakeup, pushedBack === 0 ? attempt : null)
    if (how === null) continue
    woken.add(flow)
    if (how === 'now') now.push(seq)
    else soon.push(seq)
  }
  if (soon.length > 0) yield* run(access.db, SOON, soon, nowUs + WIDE_EVERY_US)
  if (now.length > 0) yield* ask(() => access.wakeJobs(now))
  return woken
}

function wakes(awaits: Awaits, { flow, ended, signal }: Wakeup, attempt: number | null): 'now' | 'soon' | null {
  // A run has failed since: the job waits for its next attempt.
  if (attempt !== awaits.attempt) return null
  if (signal !== null && awaits.signals.includes(signal)) return 'now'
  if (!ended || awaits.ends === 'none') return null
  if (awaits.ends === 'all') return flow.open === 0 ? 'now' : null
  return flow.open > WIDE ? 'soon' : 'now'
}
