import { CALLBACKS, ownerOfPlain } from '../../jobs/flow.ts'
import type { NewFlow } from '../../jobs/new-flow.ts'
import { planOf } from './begin.ts'
import type { Context } from './context.ts'
import { insert } from './enqueue.ts'

const INSERT = `INSERT INTO flows (id, kind, name, total, edges, created, extra, owner, owner_queue)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

/** Stores a flow with all its jobs; those that wait for no other join their lanes. */
export function startFlow(context: Context, given: NewFlow): void {
  const { id, kind, name, nodes, callbacks, extra } = given
  context.policies.refresh()
  const instant = context.clock.read()
  const edges = nodes.reduce((sum, { after }) => sum + after.length, 0)
  const owner = ownerOfPlain(given)
  const { lastInsertRowid } = context.db
    .prepare(INSERT)
    .run(id, kind, name, nodes.length, edges, instant.nowUs, extra, owner?.tenant ?? null, owner?.queue ?? null)
  const flow = Number(lastInsertRowid)
  for (const [node, each] of nodes.entries()) {
    const waits = each.after.length
    const plan = waits > 0 ? planOf(each) : null
    insert(context, each.job, instant, { flow, node, waits, plan }, each.delayUs ?? 0)
    for (const before of each.after)
      context.db.run('INSERT INTO flow_edges (flow, before, node) VALUES (?, ?, ?)', flow, before, node)
  }
  for (const [i, callback] of CALLBACKS.entries()) {
    const each = callbacks[callback]
    if (each) insert(context, each.job, instant, { flow, node: nodes.length + i, waits: 1, plan: planOf(each) })
  }
}
