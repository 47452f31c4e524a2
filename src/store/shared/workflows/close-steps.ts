import type { JobError } from '../../../jobs/job-error.ts'
import type { JobEnd } from '../../../jobs/job-state.ts'
import type { Reading } from '../reading.ts'
import { errorOf } from '../set-aside.ts'
import { type FlowAccess, all } from '../sql.ts'
import { STATE, stateName } from '../state.ts'
import type { FlowRow } from './flow-rows.ts'
import { closeSteps, type OpenStep, openSteps, type StepEnd } from './steps.ts'

/** The end of a side job or of a child, as the end of a step. */
export interface Ending {
  readonly flow: FlowRow
  /** The step; empty: none of this generation. */
  readonly name: string
  /** The job's place; 0: a child. */
  readonly node: number
  readonly item: number | null
  readonly end: JobEnd
  /** JSON text. */
  readonly result: string | null
  /** JSON text. */
  readonly error: string | null
  readonly attempt: number
  readonly startedUs: number | null
  readonly finishedUs: number | null
}

const ITEMS = `SELECT item, state, result, error, started FROM sluice.jobs WHERE flow = $1 AND node >= $2 AND node < $3 ORDER BY node`
type ItemRow = [item: number, state: number, result: string | null, error: string | null, started: number | null]
/** An error names at most so many failed items in full. */
const ERRORS_AT_MOST = 1_000

/**
 * Writes the steps that these ends close. A step that the flow has written otherwise meanwhile stays. Returns the flows
 * of which a step has ended: the end of one item of a map ends none.
 */
export function* closeOpenSteps(access: FlowAccess, endings: readonly Ending[]): Reading<ReadonlySet<FlowRow>> {
  const flows = new Set<FlowRow>()
  const named = endings.filter(({ name }) => name !== '')
  const keys = new Map(
    named.map(({ flow, name }) => [`${flow.seq} ${name}`, [flow.seq, flow.generation, name] as const]),
  )
  const closed: StepEnd[] = []
  const found = new Map(
    (yield* openSteps(access, [...keys.values()])).map((step) => [`${step.flow} ${step.name}`, step]),
  )
  for (const [key, step] of found) {
    const of = named.filter(({ flow, name, node }) => `${flow.seq} ${name}` === key && isOf(step, node))
    const [first] = of
    if (!first) continue
    const end = step.remaining === null ? endOfOne(step, first) : yield* endOfMap(access, step, of)
    closed.push(end)
    if (end.state === 'open') continue
    flows.add(first.flow)
    first.flow.kept++
    first.flow.bytes += Buffer.byteLength(end.result ?? '') + (end.error ? JSON.stringify(end.error).length : 0)
  }
  yield* closeSteps(access, closed)
  return flows
}

function isOf({ node, items }: OpenStep, of: number): boolean {
  return of >= node && of < node + Math.max(items, 1)
}

function endOfOne({ at }: OpenStep, ending: Ending): StepEnd {
  const { result, attempt, startedUs, finishedUs } = ending
  const error = errorBy(ending)
  return { at, state: error ? 'failed' : 'done', result, error, attempt, startedUs, finishedUs, left: null }
}

function* endOfMap(access: FlowAccess, step: OpenStep, of: readonly Ending[]): Reading<StepEnd> {
  const { at, flow, node, items } = step
  const left = (step.remaining ?? 0) - of.length
  const none = { result: null, error: null, attempt: 1, startedUs: null, finishedUs: null }
  if (left > 0) return { at, state: 'open', ...none, left }
  const rows = yield* all<ItemRow>(access.db, ITEMS, flow, node, node + items)
  const errors = rows.flatMap(([index, state, , text]) => {
    const error = errorBy({ end: stateName(state) as JobEnd, error: text, node })
    return error ? [{ index, error }] : []
  })
  const started = rows.flatMap(([, , , , startedUs]) => (startedUs === null ? [] : [startedUs]))
  return {
    at,
    state: errors.length > 0 ? 'failed' : 'done',
    result: `[${rows.map(([, state, result]) => (state === STATE.completed ? (result ?? 'null') : 'null')).join(',')}]`,
    error: errors.length > 0 ? errorOfItems(errors, items) : null,
    attempt: 1,
    startedUs: started.length > 0 ? started.reduce((a, b) => Math.min(a, b)) : null,
    finishedUs: of.at(-1)?.finishedUs ?? null,
    left: 0,
  }
}

function errorOfItems(errors: readonly { index: number; error: JobError }[], items: number): JobError {
  const message = `${errors.length} of ${items} items failed; the first is item ${errors[0]?.index}: ${errors[0]?.error.message}`
  const named = errors.map(({ index, error }, i) => {
    const { code } = error
    return { index, error: i < ERRORS_AT_MOST ? { ...error } : { code, message: 'See the job of this item.' } }
  })
  return { code: 'flow.items_failed', message, details: { failed: errors.length, items: named } }
}

function errorBy({ end, error, node }: Pick<Ending, 'end' | 'error' | 'node'>): JobError | null {
  if (end === 'completed') return null
  if (end === 'discarded' && error !== null) return errorOf(error)
  return node === 0
    ? { code: 'flow.cancelled', message: 'The child flow was cancelled.' }
    : { code: 'job.cancelled', message: 'The job of this step was cancelled.' }
}
