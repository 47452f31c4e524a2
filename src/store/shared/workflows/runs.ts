import type { WorkflowKind } from '../../../jobs/flow.ts'
import type { JobState } from '../../../jobs/job-state.ts'
import type { Settlement } from '../../../jobs/settlement.ts'
import { column, columns, numbers, numbersOrNull } from '../columns.ts'
import type { Reading } from '../reading.ts'
import { type FlowAccess, all, get } from '../sql.ts'
import { isEnd, STATE, stateName } from '../state.ts'
import { storedFlowState } from '../stored-flows.ts'

/** The settlement of a run whose flow goes on. */
export type NextSettlement = Extract<Settlement, { readonly kind: 'next' }>

/** Such a settlement with its worker. */
export interface MoveRequest {
  readonly worker: number
  readonly settlement: NextSettlement
  /** An earlier try failed, and may have been written nevertheless. */
  readonly again?: boolean
}

/** A job of a flow whose run is settled. */
export interface FlowJob {
  readonly seq: number
  readonly attempt: number
  readonly state: number
  readonly worker: number | null
  readonly started: number | null
  readonly moves: number
  readonly flow: number
  readonly node: number
  readonly step: string | null
  /** 1: a caller asked to cancel it. */
  readonly cancelling: number
  /** 1: its flow runs. */
  readonly live: number
  /** JSON text of the buckets whose permits it holds. */
  readonly permits: string | null
  /** The steps that its moves have written, and their bytes: they change with its moves. */
  kept: number
  bytes: number
  readonly kind: WorkflowKind
  readonly generation: number
  readonly depth: number
  /** The steps that side jobs have written, and their bytes. */
  readonly flowKept: number
  readonly flowBytes: number
}

const RUN = columns({
  seq: column<number>('j.seq'),
  attempt: column<number>('j.attempt'),
  state: column<number>('j.state'),
  kept: column<number>('j.kept'),
  bytes: column<number>('j.bytes'),
  ...numbers('flow', 'node', 'moves', 'generation', 'depth'),
  ...numbersOrNull('worker', 'started'),
  step: column<string | null>(),
  kind: column<WorkflowKind>(),
  cancelling: column<number>('CASE WHEN j.cancelling THEN 1 ELSE 0 END'),
  live: column<number>(`CASE WHEN f.state = ${storedFlowState('running')} THEN 1 ELSE 0 END`),
  permits: column<string | null>('array_to_json(permits)::text'),
  flowKept: column<number>('f.kept'),
  flowBytes: column<number>('f.bytes'),
})
const LOCK = `SELECT ${RUN.list} FROM sluice.jobs j JOIN sluice.flows f ON f.seq = j.flow
  WHERE j.seq = ANY ($1::bigint[]) ORDER BY j.seq FOR UPDATE OF j`

/** Locks the jobs of these settlements, in the order of their places. */
export function* lockRuns({ db }: FlowAccess, requests: readonly MoveRequest[]): Reading<Map<number, FlowJob>> {
  const rows = yield* all(
    db,
    LOCK,
    requests.map(({ settlement }) => settlement.seq),
  )
  return new Map(rows.map((row) => RUN.read(row)).map((job) => [job.seq, { ...job }]))
}

/** Whether the caller still holds the lease of the run that it settles. */
export function holds({ worker, settlement }: MoveRequest, job: FlowJob): boolean {
  const { attempt, moves, startedUs = job.started } = settlement
  return (
    job.state === STATE.active &&
    job.worker === worker &&
    job.attempt === attempt &&
    job.moves === moves &&
    job.started === startedUs
  )
}

/** The state of a job that an earlier try of this settlement has moved; null: none has. */
export function* movedBefore(
  { db }: FlowAccess,
  { settlement }: MoveRequest,
  job: FlowJob | undefined,
): Reading<JobState | null> {
  const { id, moves, move } = settlement
  const [state, moved, attempt, error] = (yield* get<[number, number, number, string | null]>(
    db,
    'SELECT state, moves, attempt, error FROM sluice.jobs WHERE id = $1::uuid',
    id,
  )) ?? [null, 0, 0, null]
  if (state === null) return null
  if (move.then.kind === 'stay') return job !== undefined && (yield* wroteMembers(db, settlement)) ? 'active' : null
  if (moved === moves + 1) return stateName(state)
  if (moved !== moves || attempt !== settlement.attempt || !isEnd(state)) return null
  const ours = move.then.kind === 'end' && move.then.error ? JSON.stringify(move.then.error) : null
  return state !== STATE.discarded || error === ours ? stateName(state) : null
}

/** Whether the jobs or the flows that this settlement starts are stored. */
function* wroteMembers(db: FlowAccess['db'], { move }: NextSettlement): Reading<boolean> {
  const ids = [...move.spawn.map(({ job }) => job.id), ...move.children.map(({ flow }) => flow.job.id)]
  if (ids.length === 0) return false
  return (yield* get(db, 'SELECT 1 FROM sluice.jobs WHERE id = ANY ($1::uuid[]) LIMIT 1', ids)) !== undefined
}
