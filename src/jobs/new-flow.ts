import { SluiceError } from '../base/errors.ts'
import { isName, LONGEST_NAME } from '../base/text.ts'
import type { Callback, PlainFlowKind } from './flow.ts'
import type { NewJob } from './job.ts'

/** Nodes of one flow at most: starting and cancelling a flow is one transaction. */
export const MAX_NODES = 10_000
/** Dependencies in one flow at most. */
export const MAX_EDGES = 50_000
/** Steps of a chain at most: each is handed the results of all before it. */
export const MAX_STEPS = 1_000

/** A job of a flow, which is enqueued when its time comes. */
export interface FlowJob {
  readonly job: NewJob
  /** The earliest start after its turn, in µs; null: at once. */
  readonly delayUs: number | null
}

/** A job that waits for others of its flow. */
export interface FlowNode extends FlowJob {
  /**
   * The places of the nodes that must complete before it starts. Each is smaller than its own, so there is no cycle.
   * None appears twice.
   */
  readonly after: readonly number[]
}

/** A flow as it is handed to a store: everything is checked, every job is prepared. */
export interface NewFlow {
  readonly id: string
  readonly kind: PlainFlowKind
  readonly name: string | null
  readonly nodes: readonly FlowNode[]
  readonly callbacks: Readonly<Partial<Record<Callback, FlowJob>>>
  /** JSON text of `{ meta }`, or null. */
  readonly extra: string | null
}

/** The nodes that each node of such a flow waits for. @param size the number of nodes */
export function dependencies(kind: PlainFlowKind, size: number): readonly (readonly number[])[] {
  return Array.from({ length: size }, (_, node) => (kind === 'chain' && node > 0 ? [node - 1] : []))
}

/**
 * Checks that a store can hold a flow: it has nodes, not too many, no cycle, and no unique jobs.
 * @throws {SluiceError} `flow.invalid`
 */
export function checkFlow({ kind, name, nodes, callbacks }: NewFlow): void {
  checkFlowName(kind, name)
  if (nodes.length === 0) throw invalid(kind, 'it has no jobs. Expected at least one')
  const most = kind === 'chain' ? MAX_STEPS : MAX_NODES
  if (nodes.length > most)
    throw invalid(kind, `it has ${nodes.length} jobs. Expected at most ${most}; split it into several flows`)
  let edges = 0
  for (const [node, { after }] of nodes.entries()) {
    edges += after.length
    if (kind === 'chain' && after.join() !== (node === 0 ? '' : String(node - 1)))
      throw invalid(kind, `job ${node} does not wait for the one before it alone`)
    if (new Set(after).size !== after.length) throw invalid(kind, `job ${node} waits for one job twice`)
    const wrong = after.find((before) => !(Number.isInteger(before) && before >= 0 && before < node))
    if (wrong !== undefined)
      throw invalid(kind, `job ${node} waits for job ${wrong}. Expected jobs that are listed before it`)
  }
  if (edges > MAX_EDGES) throw invalid(kind, `it has ${edges} dependencies. Expected at most ${MAX_EDGES}`)
  if (kind === 'batch' && Object.keys(callbacks).length === 0)
    throw invalid(kind, 'it has no callback. Expected at least one; otherwise use a group')
  for (const { job } of [...nodes, ...Object.values(callbacks)])
    if (job.unique) throw invalid(kind, `its ${job.task} job is unique, so another job might replace it. Omit unique`)
}

/** Checks the name of a flow; null: it has none. @throws {SluiceError} `flow.invalid` */
export function checkFlowName(kind: string, name: unknown): void {
  if (name !== null && !isName(name))
    throw invalid(
      kind,
      `its name is invalid. Expected 1 to ${LONGEST_NAME} characters, without NUL and half surrogate pairs`,
    )
}

function invalid(kind: string, why: string): SluiceError {
  return new SluiceError('flow.invalid', `A ${kind} was not started: ${why}.`)
}
