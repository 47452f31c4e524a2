import type { StepRecord } from '../../jobs/flow-memory.ts'
import type { Clock } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { FlowMove, FlowThen, NewChild, SideJob } from '../../jobs/workflow.ts'
import { arrivalOf, type Home, plainArrival } from '../shared/arrivals.ts'
import { recordOf } from '../shared/records.ts'
import type { Ask, StepWant } from './ask.ts'
import { isRepeated } from './names.ts'

/** Side jobs and children of a flow that are open at a time, without the items of maps. */
const OPEN_AT_MOST = 1_000

/** The parts of an entry at rest. */
export interface RestParts {
  readonly asks: readonly Ask[]
  readonly workflow: string
  readonly home: Home
  /** The flow's `events` that the entry knew. */
  readonly seen: number
  readonly nowUs: number
  readonly clock: Clock
  readonly newId: () => string
}

/**
 * Where a flow goes whose body has come to rest: to the lane of the one step that it wants, or to a wait for what is
 * open, with a side job for each step.
 * @throws {SluiceError} `flow.too_wide`
 */
export function moveAtRest(parts: RestParts): Pick<FlowMove, 'steps' | 'spawn' | 'children' | 'then'> {
  const { asks, home, nowUs } = parts
  const [only] = asks
  if (only && asks.length === 1 && (only.want.kind === 'step' || only.want.kind === 'sleep'))
    return moveAlone(parts, only)
  const steps: StepRecord[] = []
  const spawn: SideJob[] = []
  const children: NewChild[] = []
  let open = 0
  for (const { name, want } of asks) {
    if (want.kind === 'open') open++
    else if (want.kind === 'step') {
      open++
      spawn.push(sideJobOf(parts, name, want))
      steps.push(want.retrying ? { ...want.retrying, state: 'open' } : recordOf({ name, state: 'open' }))
    } else if (want.kind === 'jobs') {
      open++
      steps.push(recordOf({ name, state: 'open' }))
      for (const [item, each] of want.jobs.entries())
        spawn.push({ ...each, step: name, item: want.isMap ? item : null, attempt: 0 })
    } else if (want.kind === 'child') {
      open++
      steps.push(recordOf({ name, state: 'open' }))
      children.push({ flow: want.flow, step: name, attached: true })
    } else if (want.kind === 'sleep' || want.kind === 'signal') steps.push(waitRecord(name, want))
  }
  if (open > OPEN_AT_MOST)
    throw new SluiceError(
      'flow.too_wide',
      `The flow waits for ${open} steps, calls and children at a time. Expected at most ${OPEN_AT_MOST}; use flow.map for tasks.`,
    )
  const dues = asks.flatMap(({ want }) => ('dueUs' in want && want.dueUs !== null ? [want.dueUs] : []))
  const then: FlowThen = {
    kind: 'park',
    seen: parts.seen,
    signals: [...new Set(asks.flatMap(({ want }) => (want.kind === 'signal' ? [want.signal] : [])))],
    ends: open > 0 ? 'any' : 'none',
    dueUs: dues.length === 0 ? null : Math.max(nowUs, Math.min(...dues)),
    arrival: plainArrival(home),
  }
  return { steps, spawn, children, then }
}

/** One step alone takes the job itself along: no other job is needed, and none has to wake it. */
function moveAlone({ clock, home, nowUs }: RestParts, { name, want }: Ask): ReturnType<typeof moveAtRest> {
  const nothing = { spawn: [], children: [] }
  if (want.kind === 'step') {
    const arrival = arrivalOf(name, want.terms, want.attempt, want.delayUs)
    const place = isRepeated(name) && !want.retrying ? 'new' : 'keep'
    return { ...nothing, steps: want.retrying ? [want.retrying] : [], then: { kind: 'go', arrival, place } }
  }
  if (want.kind !== 'sleep') throw new RangeError(`the step ${name} cannot take the job along`)
  const { dueUs, untilMs } = want
  const isAhead = untilMs === null || untilMs > clock.now()
  const time = untilMs === null ? { delayUs: Math.max(0, dueUs - nowUs) } : { runAtMs: isAhead ? untilMs : null }
  return {
    ...nothing,
    steps: [waitRecord(name, want)],
    then: { kind: 'go', arrival: { ...plainArrival(home), ...time }, place: 'keep' },
  }
}

function waitRecord(name: string, want: Ask['want']): StepRecord {
  if (want.kind === 'sleep') {
    const { dueUs, untilMs } = want
    return recordOf({ name, state: 'sleeping', dueUs, input: untilMs === null ? null : JSON.stringify(untilMs) })
  }
  return recordOf({ name, state: 'awaiting', dueUs: want.kind === 'signal' ? want.dueUs : null })
}

function sideJobOf({ newId, workflow }: RestParts, step: string, want: StepWant): SideJob {
  const { uses, queue, priority, retry } = want.terms
  const job: NewJob = {
    id: newId(),
    task: workflow,
    queue,
    priority,
    input: 'null',
    uses,
    maxAttempts: retry.attempts,
    runAtMs: null,
    expiresAtMs: null,
    unique: null,
    extra: null,
  }
  return { job, step, item: null, attempt: want.attempt, delayUs: want.delayUs }
}
