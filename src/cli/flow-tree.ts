/** A flow, its steps and the steps of its children as the lines of a tree. */
import type { FlowStepView } from '../engine/api/flow-views.ts'
import type { FlowInspection, FlowsApi } from '../engine/api/flows.ts'
import type { Paint } from './demo/paint.ts'
import { inWords, printable } from './words.ts'

/** A flow and those of its children that are shown below their steps. */
export interface FlowNode {
  readonly flow: FlowInspection
  /** By their ids. */
  readonly children: ReadonlyMap<string, FlowNode>
}

const DEEPEST = 3
const CHILDREN_SHOWN = 50
const STEPS_SHOWN = 200

/** Reads a flow with its children, three levels deep. Null: there is none. */
export async function flowNode(api: FlowsApi, id: string, level = 0): Promise<FlowNode | null> {
  const flow = await api.inspect(id)
  if (!flow) return null
  const children = new Map<string, FlowNode>()
  for (const { child } of level < DEEPEST ? flow.steps : []) {
    if (!child || children.size >= CHILDREN_SHOWN) continue
    const node = await flowNode(api, child.id, level + 1)
    if (node) children.set(child.id, node)
  }
  return { flow, children }
}

/** The lines of a tree: the flow, then a line for each step. */
export function treeLines(node: FlowNode, nowMs: number, paint: Paint): string[] {
  const { flow } = node
  const facts = [
    flow.id,
    flow.state,
    ...(flow.key === null ? [] : [`key ${flow.key}`]),
    `started ${flow.startedAt.toISOString()}`,
    flow.finishedAt === null
      ? `running for ${spanOf(nowMs - flow.startedAt.getTime())}`
      : `took ${spanOf(flow.finishedAt.getTime() - flow.startedAt.getTime())}`,
  ]
  const error = flow.error ? [paint('red', printable(`${flow.error.code}: ${flow.error.message}`))] : []
  return [`${paint('bold', printable(flow.name ?? flow.kind))}  ${printable(facts.join('  '))}`, ...error].concat(
    stepLines(node, '', nowMs, paint),
  )
}

function stepLines({ flow, children }: FlowNode, indent: string, nowMs: number, paint: Paint): string[] {
  const steps = flow.steps.slice(0, STEPS_SHOWN)
  const more = flow.steps.length - steps.length
  const width = Math.max(0, ...steps.map(({ name }) => printable(name).length))
  const lines = steps.flatMap((step, i) => {
    const isLast = i === steps.length - 1 && more === 0
    const child = step.child && children.get(step.child.id)
    const below = child ? stepLines(child, `${indent}${isLast ? '   ' : '│  '}`, nowMs, paint) : []
    const head = `${paint('dim', `${indent}${isLast ? '└─' : '├─'} `)}${printable(step.name).padEnd(width)}`
    return [`${head}  ${stateIn(step, paint)}  ${printable(detailsOf(step, nowMs))}`.trimEnd(), ...below]
  })
  return more === 0 ? lines : [...lines, paint('dim', `${indent}└─ and ${more} more steps; --json has all`)]
}

const STATE_WIDTH = 8

function stateIn({ state }: FlowStepView, paint: Paint): string {
  const text = state.padEnd(STATE_WIDTH)
  if (state === 'done') return paint('green', text)
  if (state === 'failed') return paint('red', text)
  if (state === 'skipped') return paint('dim', text)
  return paint(state === 'running' ? 'cyan' : 'yellow', text)
}

function detailsOf(step: FlowStepView, nowMs: number): string {
  const { state, attempt, startedAt, finishedAt, wait, waitedMs, waitedFor, until, signals, child, left, error } = step
  const isEnded = state === 'done' || state === 'failed'
  const details: (string | null)[] = [
    isEnded && startedAt && finishedAt ? `took ${spanOf(finishedAt.getTime() - startedAt.getTime())}` : null,
    state === 'running' && startedAt ? `for ${spanOf(nowMs - startedAt.getTime())}` : null,
    attempt > 1 ? `attempt ${attempt}` : null,
    state === 'waiting' ? waitOf(step, nowMs) : null,
    waitedMs >= 1 && state !== 'sleeping' ? `waited ${spanOf(waitedMs)}${wait ? '' : bucketOf(waitedFor)}` : null,
    signals && signals.length > 0 ? `for the signal ${signals.join(' or ')}` : null,
    until === null ? null : `until ${at(until, nowMs)}`,
    left === undefined ? null : `${left} to go`,
    child ? `child ${child.id} of ${child.workflow}, ${child.state}` : null,
    error ? `${error.code}: ${error.message}` : null,
  ]
  return details.filter((each) => each !== null).join(', ')
}

/** The wait of a step: its budget, its position and its expected start. */
function waitOf({ wait }: FlowStepView, nowMs: number): string | null {
  if (!wait) return null
  const { waitsOn, position, linePosition, expectedStart, exact } = wait
  const place = linePosition ?? position
  const start = expectedStart ? `${exact ? 'starts' : 'starts no sooner than'} ${at(expectedStart, nowMs)}` : null
  if (!waitsOn) return start ?? (place === null ? 'for its turn' : `for a slot, at position ${place}`)
  const budget = `at position ${place ?? 1}${bucketOf({ limit: waitsOn.limit, key: waitsOn.key ?? '' })}`
  return start === null ? budget : `${budget}, ${start}`
}

function bucketOf(bucket: { readonly limit: string; readonly key: string } | null): string {
  if (!bucket) return ''
  return bucket.key === '' ? ` for ${bucket.limit}` : ` for ${bucket.limit} of ${bucket.key}`
}

function at(date: Date, nowMs: number): string {
  const inMs = date.getTime() - nowMs
  return inMs < 1 ? date.toISOString() : `${date.toISOString()} (in ${inWords(inMs)})`
}

function spanOf(ms: number): string {
  return ms < 1 ? '0 ms' : inWords(ms)
}
