import type { StepRecord } from '../../../jobs/flow-memory.ts'
import type { JobState } from '../../../jobs/job-state.ts'
import type { Instant } from '../../../jobs/series.ts'
import type { Arrival, FlowMove, NewWorkflow, SideJob } from '../../../jobs/workflow.ts'
import { DEADLINE_STEP } from '../../../jobs/workflow.ts'
import { ask, type Reading } from '../reading.ts'
import { type FlowAccess, now, run } from '../sql.ts'
import type { Member, Placement } from './place.ts'
import { dropSides } from './drop.ts'
import { type FlowRow, type FlowRows, lockFlows, saveFlows } from './flow-rows.ts'
import type { FlowJob } from './runs.ts'
import { consume } from './signal.ts'
import { insertFlows } from './start.ts'
import { type OpenAs, trimHistory, writeSteps, type WrittenStep } from './steps.ts'
import type { Awaits } from './wake.ts'

/** A job and its move. */
export interface JobMove {
  readonly job: FlowJob
  readonly move: FlowMove
}

/** After so many moves a machine forgets its oldest steps. */
const TRIMMED_EVERY = 128
const STAY = `UPDATE sluice.jobs SET kept = (e.value ->> 1)::int, bytes = (e.value ->> 2)::bigint, input = coalesce(e.value ->> 3, jobs.input),
    permits = CASE WHEN (e.value ->> 4)::int = 1 THEN NULL ELSE jobs.permits END
  FROM json_array_elements($1::json) e WHERE jobs.seq = (e.value ->> 0)::bigint`

const WITHDRAW = `DELETE FROM sluice.flow_steps WHERE flow = $1 AND generation = $2 AND name = $3 AND node = $4 AND state = 'open'`

/** Moves that are written together. */
export class MoveBatch {
  readonly #access: FlowAccess
  readonly #moves: readonly JobMove[]
  readonly #flows: FlowRows
  readonly #instant: Instant
  readonly #steps: WrittenStep[] = []
  readonly #members: Member[] = []
  readonly #placements: Placement[] = []
  readonly #stays = new Map<number, readonly (number | string | null)[]>()

  private constructor(access: FlowAccess, moves: readonly JobMove[], flows: FlowRows, instant: Instant) {
    this.#access = access
    this.#moves = moves
    this.#flows = flows
    this.#instant = instant
  }

  /** Locks the flows that these moves change; a move that only goes on changes none. */
  static *of(access: FlowAccess, moves: readonly JobMove[]): Reading<MoveBatch> {
    const flows = yield* lockFlows(
      access,
      moves.filter(({ move }) => changesFlow(move)).map(({ job }) => job.flow),
    )
    return new MoveBatch(access, moves, flows, yield* now(access))
  }

  /** Takes a move into the batch. Returns the state that its job gets. */
  *add(place: number): Reading<JobState> {
    const { job, move } = this.#moves[place] as JobMove
    const flow = this.#flows.get(job.flow)
    if (flow && (move.drop.length > 0 || move.again !== null)) yield* dropSides(this.#access, flow, this.#flows, move)
    if (flow && move.again !== null) {
      flow.generation++
      flow.kept = 0
      flow.bytes = 0
    }
    const generation = flow?.generation ?? job.generation
    const open = flow ? this.#spawn(flow, move.spawn) : new Map<string, OpenAs>()
    const replaced = flow ? yield* this.#start(flow, move) : new Map<string, StepRecord>()
    for (const { step, attached } of move.children) if (attached) open.set(step, CHILD)
    for (const record of move.steps)
      this.#steps.push({
        flow: job.flow,
        generation,
        record: replaced.get(record.name) ?? record,
        open: open.get(record.name) ?? null,
      })
    if (flow && move.keepPermits && job.permits !== null) keepPermits(flow, job.permits)
    return this.#next(job, move, flow)
  }

  /** Writes all that the moves have changed. */
  *write(): Reading<void> {
    const access = this.#access
    if (this.#members.length > 0) yield* ask(() => access.insertMembers(this.#members))
    yield* writeSteps(access, this.#steps)
    yield* consume(
      access,
      this.#moves.flatMap(({ move }) => move.consumed),
    )
    if (this.#stays.size > 0) yield* run(access.db, STAY, JSON.stringify([...this.#stays.values()]))
    if (this.#placements.length > 0) yield* ask(() => access.placeJobs(this.#placements))
    for (const { job, move } of this.#moves) {
      if (move.then.kind === 'withdraw') yield* run(access.db, WITHDRAW, job.flow, job.generation, job.step, job.node)
      if (job.kind === 'machine' && isTrimmed(job.moves)) yield* trimHistory(access, job.flow)
      if (move.again !== null) yield* this.#forget(job.flow)
    }
    yield* saveFlows(access, this.#flows.values())
  }

  #next(job: FlowJob, { then, again, state, keepPermits: keeps }: FlowMove, flow: FlowRow | undefined): JobState {
    const input = again ?? state
    const { seq, kept, bytes } = job
    if (then.kind !== 'go' && then.kind !== 'park') {
      const [, , , earlier = null, kept1 = 0] = this.#stays.get(seq) ?? []
      this.#stays.set(seq, [seq, kept, bytes, input ?? earlier, keeps ? 1 : kept1])
      return 'active'
    }
    const placement = { seq, input, kept, bytes, isNew: then.kind === 'go' && then.place === 'new' }
    if (then.kind === 'go' || (flow && isLate(then, flow))) {
      const arrival = then.kind === 'go' ? then.arrival : asPlainEntry(then.arrival)
      this.#placements.push({ ...placement, arrival, parked: null })
      return stateOf(arrival, this.#instant)
    }
    const { signals, ends, dueUs, arrival } = then
    const awaits: Awaits = { signals, ends, attempt: arrival.attempt }
    this.#placements.push({ ...placement, arrival, parked: { awaits: JSON.stringify(awaits), dueUs } })
    return dueUs === null ? 'pending' : 'retryable'
  }

  /** Numbers new side jobs behind the others of their flow. Returns the places that their steps have. */
  #spawn(flow: FlowRow, spawn: readonly SideJob[]): Map<string, OpenAs> {
    const open = new Map<string, OpenAs>()
    for (const { job, step, item, attempt, delayUs } of spawn) {
      const node = flow.total++
      if (step !== DEADLINE_STEP) flow.open++
      const had = open.get(step)
      open.set(step, { node: had?.node ?? node, items: (had?.items ?? 0) + 1, isMap: item !== null })
      this.#members.push({ flow: flow.seq, node, step, item, attempt, delayUs: delayUs ?? job.delayUs ?? 0, job })
    }
    return open
  }

  /** Stores children. Returns the steps of those whose key another flow has. */
  *#start(flow: FlowRow, { children, steps }: FlowMove): Reading<Map<string, StepRecord>> {
    const replaced = new Map<string, StepRecord>()
    if (children.length === 0) return replaced
    const ids = yield* insertFlows(
      this.#access,
      children.map(({ flow: child, step, attached }) => ({
        flow: child,
        parent: attached ? { flow: flow.seq, step, generation: flow.generation, depth: flow.depth + 1 } : null,
        starter: flow.seq,
      })),
    )
    for (const { flow: child, step, attached } of children) {
      const other = ids.get(child.job.id) as string
      if (other === child.job.id) {
        if (attached) flow.open++
        continue
      }
      const record = steps.find(({ name }) => name === step)
      if (attached) flow.events++
      if (record)
        replaced.set(
          step,
          attached || child.onConflict === 'reject' ? taken(record, child, other) : joined(record, other),
        )
    }
    return replaced
  }

  /** Forgets the steps of all generations but the newest and the one before. */
  *#forget(seq: number): Reading<void> {
    const before = (this.#flows.get(seq)?.generation ?? 0) - 1
    yield* run(this.#access.db, 'DELETE FROM sluice.flow_steps WHERE flow = $1 AND generation < $2', seq, before)
  }
}

const CHILD: OpenAs = { node: 0, items: 1, isMap: false }

/** Whether a machine forgets its oldest steps by this move. @param moves those of its job so far */
export function isTrimmed(moves: number): boolean {
  return moves % TRIMMED_EVERY === TRIMMED_EVERY - 1
}

/** Whether a move changes more than its job and steps: then its flow is locked. */
export function changesFlow({ spawn, children, drop, again, keepPermits: keeps, then }: FlowMove): boolean {
  if (spawn.length + children.length + drop.length > 0 || again !== null || keeps) return true
  // Side jobs of one flow note the same.
  if (then.kind === 'withdraw') return true
  return then.kind === 'park' && (then.signals.length > 0 || then.ends !== 'none')
}

/** Whether something that a job is to wait for has happened since its entry. */
function isLate({ seen, signals, ends }: Extract<FlowMove['then'], { kind: 'park' }>, flow: FlowRow): boolean {
  if (ends === 'all' && flow.open === 0) return true
  return flow.events > seen && (ends === 'any' || signals.length > 0)
}

function asPlainEntry(arrival: Arrival): Arrival {
  return { ...arrival, step: null, uses: [], fairKey: null, share: 1, attempt: 0 }
}

function stateOf({ delayUs, runAtMs }: Arrival, { wallUs }: Instant): JobState {
  if (runAtMs !== null && Math.round(runAtMs * 1000) > wallUs) return 'scheduled'
  return delayUs !== null && delayUs > 0 ? 'retryable' : 'available'
}

function keepPermits(flow: FlowRow, permits: string): void {
  const held = flow.held === null ? [] : (JSON.parse(flow.held) as number[])
  flow.held = JSON.stringify([...held, ...(JSON.parse(permits) as number[])])
}

/** A child is waited for, so it cannot be another's flow. */
function taken(record: StepRecord, { key, name }: NewWorkflow, other: string): StepRecord {
  const message = `Another flow of ${name} with the key ${key} is running: ${other}.`
  return { ...record, state: 'failed', result: null, error: { code: 'flow.conflict', message } }
}

/** A flow that is started to outlive this one may be running already. */
function joined(record: StepRecord, other: string): StepRecord {
  return { ...record, result: JSON.stringify({ id: other }) }
}
