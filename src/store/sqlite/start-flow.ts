import { CALLBACKS } from '../../jobs/flow.ts'
import type { NewFlow } from '../../jobs/new-flow.ts'
import { planOf } from './begin.ts'
import type { Context } from './context.ts'
import { insert } from './enqueue.ts'

const INSERT = 'INSERT INTO flows (id, kind, name, total, edges, created, extra) VALUES (?, ?, ?, ?, ?, ?, ?)'

/** Stores a flow with all its jobs; those that wait for no other join their lanes. */
export function startFlow(context: Context, { id, kind, name, nodes, callbacks, extra }: NewFlow): void {
  context.policies.refresh()
  const instant = context.clock.read()
  const edges = nodes.reduce((sum, { after }) => sum + after.length, 0)
  const { lastInsertRowid } = context.db.prepare(INSERT).run(id, kind, name, nodes.length, edges, instant.nowUs, extra)
  const flow = Number(lastInsertRowid)
  for (const [node, given] of nodes.entries()) {
    const waits = given.after.length
    const plan = waits > 0 ? planOf(given) : null
    insert(context, given.job, instant, { flow, node, waits, plan }, given.delayUs ?? 0)
    for (const before of given.after)
      context.db.run('INSERT INTO flow_edges (flow, before, node) VALUES (?, ?, ?)', flow, before, node)
  }
  for (const [i, callback] of CALLBACKS.entries()) {
    const given = callbacks[callback]
    if (given) insert(context, given.job, instant, { flow, node: nodes.length + i, waits: 1, plan: planOf(given) })
  }
}
