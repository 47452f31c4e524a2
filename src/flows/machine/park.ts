import type { StepRecord } from '../../jobs/flow-memory.ts'
import { durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { quote, show } from '../../base/options.ts'
import { prepareChild } from '../shared/start-child.ts'
import type { FlowMove, NewChild } from '../../jobs/workflow.ts'
import { recordOf } from '../shared/records.ts'
import { ChildStart, type MachineMove } from './moves.ts'
import { nextOf } from './target.ts'
import type { Visit } from './visit.ts'
import { type Awaited, memoryOf } from './woken.ts'

/** Children of one join at most. */
const CHILDREN_AT_MOST = 1_000

type Parked = Partial<FlowMove> & Pick<FlowMove, 'then'>
type Wait = Extract<MachineMove['move'], { kind: 'wait' }>
type Join = Extract<MachineMove['move'], { kind: 'join' }>

/** Waits for signals, then for the limits of the next step. One that has come already wakes it at once. */
export async function parkForSignals(visit: Visit, { on, target }: Wait, consumed: readonly number[]): Promise<Parked> {
  const { code, entry } = visit
  const known = Object.keys(code.signals)
  if (!Array.isArray(on))
    throw new SluiceError(
      'option.invalid',
      `The signals of to.wait of machine ${code.name} are invalid: ${show(on)}. Expected a list of names.`,
    )
  for (const name of on as readonly unknown[])
    if (typeof name !== 'string' || !known.includes(name))
      throw new SluiceError(
        'option.invalid',
        `The machine ${code.name} has no signal ${quote(name)}. Expected ${known.length === 0 ? 'none' : known.join(', ')}.`,
      )
  const { name, arrival, place, state } = await nextOf(visit, target, 'wait')
  const { within } = target.arrival
  if (on.length === 0 && within === undefined)
    throw new SluiceError(
      'option.invalid',
      `A to.wait of machine ${code.name} has no signal and no within: it would never end. Expected one of them.`,
    )
  const withinUs = within === undefined ? null : durationUs(within, 'within of to.wait')
  const dueUs = withinUs === null ? null : entry.store.nowUs() + withinUs
  const record = awaited(name, { signals: on }, dueUs)
  const { events, signals } = await memoryOf(entry)
  const hasCome = signals.some((signal) => on.includes(signal.name) && !consumed.includes(signal.seq))
  if (hasCome) return { state, steps: [record], then: { kind: 'go', arrival, place } }
  return { state, steps: [record], then: { kind: 'park', seen: events, signals: on, ends: 'none', dueUs, arrival } }
}

/** The children of a join. @throws {SluiceError} `option.invalid` */
export function childrenOf({ children }: Join): readonly ChildStart[] {
  const given: unknown = children
  if (Array.isArray(given)) return children
  throw new SluiceError(
    'option.invalid',
    `The children of to.join are invalid: ${show(given)}. Expected a list of results of child(workflow, input).`,
  )
}

/** Starts children, and waits for the end of all. */
export async function parkForChildren(visit: Visit, { children, target }: Join): Promise<Parked> {
  const { entry } = visit
  if (children.length > CHILDREN_AT_MOST)
    throw new SluiceError(
      'flow.too_wide',
      `A join has ${children.length} children. Expected at most ${CHILDREN_AT_MOST}.`,
    )
  const { name, arrival, state } = await nextOf(visit, target, 'join')
  const starts: NewChild[] = []
  for (const [i, each] of children.entries()) {
    if (!(each instanceof ChildStart))
      throw new SluiceError(
        'option.invalid',
        'A child of to.join is invalid. Expected the result of child(workflow, input).',
      )
    const flow = await prepareChild(entry.engine, each.of, each.input, each.options)
    starts.push({ flow, step: `${name}/${i}`, attached: true })
  }
  const steps = starts.map(({ step }) => recordOf({ name: step, state: 'open' }))
  const record = awaited(name, { children: starts.map(({ step }) => step) }, null)
  const { events } = await memoryOf(entry)
  return {
    state,
    steps: [record, ...steps],
    children: starts,
    then: { kind: 'park', seen: events, signals: [], ends: 'all', dueUs: null, arrival },
  }
}

function awaited(name: string, on: Awaited, dueUs: number | null): StepRecord {
  return recordOf({ name, state: 'awaiting', input: JSON.stringify(on), dueUs })
}
