import type { StepRecord, StepState } from '../../../jobs/flow-memory.ts'
import { MACHINE_HISTORY } from '../../../jobs/workflow.ts'
import { column, columns, numbers, numbersOrNull, textsOrNull } from '../columns.ts'
import type { Reading } from '../reading.ts'
import { errorOf } from '../set-aside.ts'
import { type FlowAccess, all, run, type SqlValue } from '../sql.ts'

/** The place of an open step's side jobs; a child's step has the node 0. */
export interface OpenAs {
  readonly node: number
  readonly items: number
  readonly isMap: boolean
}

/** A step to write. */
export interface WrittenStep {
  readonly flow: number
  readonly generation: number
  readonly record: StepRecord
  readonly open: OpenAs | null
}

/** An open step of a flow. */
export interface OpenStep {
  readonly at: number
  readonly flow: number
  readonly name: string
  readonly node: number
  readonly items: number
  readonly remaining: number | null
}

const STEP = columns({
  name: column<string>(),
  state: column<StepState>(),
  ...textsOrNull('result', 'error', 'input'),
  attempt: column<number>(),
  startedUs: column<number | null>('started'),
  finishedUs: column<number | null>('finished'),
  waitedUs: column<number>('waited'),
  waitedFor: column<string | null>('waited_for'),
  dueUs: column<number | null>('due'),
  left: column<number | null>('remaining'),
})

const FIELDS =
  'flow, generation, name, state, result, error, attempt, started, finished, waited, waited_for, due, input, node, items, remaining'
const TYPES = 'bigint int text text text text int bigint bigint bigint text bigint text int int int'.split(' ')
const VALUES = TYPES.map((type, i) => (type === 'text' ? `e.value ->> ${i}` : `(e.value ->> ${i})::${type}`)).join(', ')
const REPLACED = 'state result error attempt started finished waited waited_for due input remaining'
  .split(' ')
  .map((name) => `${name} = excluded.${name}`)
  .join(', ')
const WRITE = `INSERT INTO sluice.flow_steps (${FIELDS}) SELECT ${VALUES} FROM json_array_elements($1::json) e WHERE true
  ON CONFLICT (flow, generation, name) DO UPDATE SET ${REPLACED}, node = coalesce(excluded.node, flow_steps.node), items = coalesce(excluded.items, flow_steps.items)`

const OPEN = columns({
  ...numbers('at', 'flow', 'node', 'items'),
  ...numbersOrNull('remaining'),
  name: column<string>(),
})
const OPEN_STEPS = `SELECT ${OPEN.of('s')} FROM json_array_elements($1::json) e CROSS JOIN sluice.flow_steps s
  WHERE s.flow = (e.value ->> 0)::bigint AND s.generation = (e.value ->> 1)::int AND s.name = e.value ->> 2 AND s.state = 'open'`
const CLOSE = `UPDATE sluice.flow_steps SET state = e.value ->> 1, result = e.value ->> 2, error = e.value ->> 3, attempt = (e.value ->> 4)::int,
    started = (e.value ->> 5)::bigint, finished = (e.value ->> 6)::bigint, remaining = (e.value ->> 7)::int
  FROM json_array_elements($1::json) e WHERE flow_steps.at = (e.value ->> 0)::bigint`
const OLD_HISTORY = `DELETE FROM sluice.flow_steps WHERE flow = $1 AND at <= (
    SELECT at FROM sluice.flow_steps WHERE flow = $1 AND state <> 'open' ORDER BY at DESC LIMIT 1 OFFSET ${MACHINE_HISTORY}) AND state <> 'open'`

/** Whether a step in this state counts as remembered for good. */
function isRemembered({ state }: StepRecord): boolean {
  return state === 'done' || state === 'failed' || state === 'skipped'
}

/** The bytes that a step makes its flow remember. */
function bytesOf({ result, error, input }: StepRecord): number {
  const texts = [result, error && JSON.stringify(error), input]
  return texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0)
}

/** The number and the bytes of steps that count as remembered. */
export function keptOf(steps: readonly StepRecord[]): { readonly kept: number; readonly bytes: number } {
  const kept = steps.filter(isRemembered)
  return { kept: kept.length, bytes: kept.reduce((sum, step) => sum + bytesOf(step), 0) }
}

/** JSON text of the limit and the key that a step waited for. */
export function waitedForText({ waitedFor }: StepRecord): string | null {
  return waitedFor && JSON.stringify([waitedFor.limit, waitedFor.key])
}

/** Writes steps; of two with one name the later counts. */
export function* writeSteps({ db }: FlowAccess, steps: readonly WrittenStep[]): Reading<void> {
  if (steps.length === 0) return
  const rows = new Map(steps.map((step) => [`${step.flow} ${step.generation} ${step.record.name}`, rowOf(step)]))
  yield* run(db, WRITE, JSON.stringify([...rows.values()]))
}

function rowOf({ flow, generation, record, open }: WrittenStep): readonly SqlValue[] {
  const { name, state, result, error, attempt, startedUs, finishedUs, waitedUs, dueUs, input } = record
  const of = [flow, generation, name, state, result, error && JSON.stringify(error), attempt, startedUs, finishedUs]
  return [
    ...of,
    waitedUs,
    waitedForText(record),
    dueUs,
    input,
    open?.node ?? null,
    open?.items ?? null,
    open?.isMap ? open.items : null,
  ]
}

/** Forgets the oldest steps of a machine, beyond those that it keeps. */
export function* trimHistory({ db }: FlowAccess, flow: number): Reading<void> {
  yield* run(db, OLD_HISTORY, flow)
}

/** Those of these steps (flow, generation, name) that are open. */
export function* openSteps(
  { db }: FlowAccess,
  steps: readonly (readonly [flow: number, generation: number, name: string])[],
): Reading<OpenStep[]> {
  if (steps.length === 0) return []
  return (yield* all(db, OPEN_STEPS, JSON.stringify(steps))).map((row) => OPEN.read(row))
}

/** The end of an open step, or of some items of a map. */
export interface StepEnd extends Pick<
  StepRecord,
  'state' | 'result' | 'error' | 'attempt' | 'startedUs' | 'finishedUs'
> {
  readonly at: number
  readonly left: number | null
}

/** Writes the ends of open steps. */
export function* closeSteps({ db }: FlowAccess, ends: readonly StepEnd[]): Reading<void> {
  const rows = ends.map(({ at, state, result, error, attempt, startedUs, finishedUs, left }) => [
    at,
    state,
    result,
    error && JSON.stringify(error),
    attempt,
    startedUs,
    finishedUs,
    left,
  ])
  if (rows.length > 0) yield* run(db, CLOSE, JSON.stringify(rows))
}

/** The steps of flows in the order of their first writing, by flow. */
export function* stepsWhere(
  { db }: FlowAccess,
  where: string,
  ...values: SqlValue[]
): Reading<Map<number, StepRecord[]>> {
  const sql = `SELECT ${STEP.of('s')}, s.flow FROM sluice.flow_steps s JOIN sluice.flows f ON f.seq = s.flow WHERE ${where} ORDER BY s.at`
  const steps = new Map<number, StepRecord[]>()
  for (const row of yield* all<readonly unknown[]>(db, sql, ...values)) {
    const flow = row.at(-1) as number
    const list = steps.get(flow)
    if (list) list.push(toRecord(row))
    else steps.set(flow, [toRecord(row)])
  }
  return steps
}

/** A step from its row. */
export function toRecord(row: readonly unknown[]): StepRecord {
  const { error, waitedFor, ...step } = STEP.read(row)
  const [limit, key] = waitedFor === null ? [] : (JSON.parse(waitedFor) as [string, string])
  return {
    ...step,
    error: error === null ? null : errorOf(error),
    waitedFor: limit === undefined || key === undefined ? null : { limit, key },
  }
}
