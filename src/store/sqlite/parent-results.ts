import {
  callbackOf,
  type FlowKind,
  type FlowRun,
  MAX_PARENT_RESULTS_BYTES,
  type WorkflowKind,
} from '../../jobs/flow.ts'
import type { Context } from './context.ts'

type RunRow = [
  flow: number,
  node: number,
  id: string,
  kind: WorkflowKind,
  step: string | null,
  item: number | null,
  moves: number,
]
type Row = [node: number, result: string | null]
type FlowRow = [id: string, kind: FlowKind, total: number, edges: number, bytes: number]

// All nodes that one waits for, directly or not.
const BEFORE = `WITH RECURSIVE ahead (node) AS (SELECT before FROM flow_edges WHERE flow = ?1 AND node = ?2
    UNION SELECT e.before FROM ahead a CROSS JOIN flow_edges e ON e.flow = ?1 AND e.node = a.node)`
const RESULTS = `${BEFORE} SELECT j.node, j.result FROM ahead a CROSS JOIN jobs j ON j.flow = ?1 AND j.node = a.node`
const BYTES = `${BEFORE} SELECT sum(octet_length(j.result)) FROM ahead a CROSS JOIN jobs j ON j.flow = ?1 AND j.node = a.node`
const RUNS = `SELECT j.flow, j.node, f.id, f.kind, j.step, j.item, j.moves FROM json_each(?) e CROSS JOIN jobs j ON j.seq = e.value
  CROSS JOIN flows f ON f.seq = j.flow WHERE f.kind IN ('workflow', 'machine', 'graph')`
const UP_TO = 'SELECT node, result FROM jobs WHERE flow = ? AND node < ? ORDER BY node'

/** Hands runs of a flow's jobs the results of the nodes before them; it reads each flow of a claim once. */
export class ParentResults {
  readonly #context: Context
  readonly #flows = new Map<number, FlowRow | null>()
  /** Runs of workflow flows, which get no results. */
  readonly #runs = new Map<string, FlowRun>()

  /** @param jobs the runs that belong to flows (`seq`) */
  constructor(context: Context, jobs: readonly number[]) {
    this.#context = context
    if (jobs.length === 0) return
    for (const [flow, node, id, kind, step, item, moves] of context.db.all<RunRow>(RUNS, JSON.stringify(jobs)))
      this.#runs.set(`${flow} ${node}`, {
        id,
        node,
        callback: null,
        parentResults: [],
        workflow: { kind, step, item, moves },
      })
  }

  of(flow: number | null, node: number | null): { readonly flow?: FlowRun } {
    if (flow === null || node === null) return {}
    const run = this.#runs.get(`${flow} ${node}`)
    if (run) return { flow: run }
    const row = this.#flow(flow)
    if (!row) return {}
    const [id, kind, total, edges, bytes] = row
    const callback = callbackOf(node, total)
    const parentResults =
      callback === null
        ? this.#before(flow, node, kind, edges)
        : bytes > MAX_PARENT_RESULTS_BYTES
          ? null
          : this.#upTo(flow, total)
    return { flow: { id, node, callback, parentResults } }
  }

  #upTo(flow: number, node: number): (string | null)[] {
    return this.#context.db.all<Row>(UP_TO, flow, node).map(([, result]) => result)
  }

  #before(flow: number, node: number, kind: FlowKind, edges: number): (string | null)[] {
    if (edges === 0) return []
    // A walk along a chain would find the same, four times slower.
    if (kind === 'chain') return this.#upTo(flow, node)
    return this.#context.db
      .all<Row>(RESULTS, flow, node)
      .sort(([a], [b]) => a - b)
      .map(([, result]) => result)
  }

  #flow(flow: number): FlowRow | null {
    let row = this.#flows.get(flow)
    if (row === undefined) {
      row = this.#context.db.get<FlowRow>('SELECT id, kind, total, edges, bytes FROM flows WHERE seq = ?', flow) ?? null
      this.#flows.set(flow, row)
    }
    return row
  }
}

/** The total size of the results of all nodes that one waits for, in bytes. */
export function bytesBefore(context: Context, flow: number, node: number): number {
  return context.db.get<[number | null]>(BYTES, flow, node)?.[0] ?? 0
}
