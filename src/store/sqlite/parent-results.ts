import { callbackOf, type FlowRun, MAX_PARENT_RESULTS_BYTES } from '../../jobs/flow.ts'
import type { Context } from './context.ts'

type Row = [node: number, result: string | null]
type FlowRow = [id: string, total: number, edges: number, bytes: number]

// All nodes that one waits for, directly or not.
const BEFORE = `WITH RECURSIVE ahead (node) AS (SELECT before FROM flow_edges WHERE flow = ?1 AND node = ?2
    UNION SELECT e.before FROM ahead a CROSS JOIN flow_edges e ON e.flow = ?1 AND e.node = a.node)`
const RESULTS = `${BEFORE} SELECT j.node, j.result FROM ahead a CROSS JOIN jobs j ON j.flow = ?1 AND j.node = a.node`
const BYTES = `${BEFORE} SELECT sum(octet_length(j.result)) FROM ahead a CROSS JOIN jobs j ON j.flow = ?1 AND j.node = a.node`
const ALL = 'SELECT node, result FROM jobs WHERE flow = ? AND node < ? ORDER BY node'

/** Tells runs of a flow's jobs what came before them; reads each flow of a claim once. */
export class ParentResults {
  readonly #context: Context
  readonly #flows = new Map<number, FlowRow | null>()

  constructor(context: Context) {
    this.#context = context
  }

  of(flow: number | null, node: number | null): { readonly flow?: FlowRun } {
    if (flow === null || node === null) return {}
    const row = this.#flow(flow)
    if (!row) return {}
    const [id, total, edges, bytes] = row
    const callback = callbackOf(node, total)
    const parentResults =
      callback === null
        ? this.#before(flow, node, edges)
        : bytes > MAX_PARENT_RESULTS_BYTES
          ? null
          : this.#all(flow, total)
    return { flow: { id, node, callback, parentResults } }
  }

  #all(flow: number, total: number): (string | null)[] {
    return this.#context.db.all<Row>(ALL, flow, total).map(([, result]) => result)
  }

  #before(flow: number, node: number, edges: number): (string | null)[] {
    if (edges === 0) return []
    return this.#context.db
      .all<Row>(RESULTS, flow, node)
      .sort(([a], [b]) => a - b)
      .map(([, result]) => result)
  }

  #flow(flow: number): FlowRow | null {
    let row = this.#flows.get(flow)
    if (row === undefined) {
      row = this.#context.db.get<FlowRow>('SELECT id, total, edges, bytes FROM flows WHERE seq = ?', flow) ?? null
      this.#flows.set(flow, row)
    }
    return row
  }
}

/** What the results of all nodes that one waits for come to, in bytes. */
export function bytesBefore(context: Context, flow: number, node: number): number {
  return context.db.get<[number | null]>(BYTES, flow, node)?.[0] ?? 0
}
