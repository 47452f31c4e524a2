import { inTransaction } from '../../database/postgres-transaction.ts'
import type { Statements } from '../../database/statements.ts'
import { CALLBACKS, ownerOfPlain } from '../../jobs/flow.ts'
import { laneKey } from '../../jobs/lane.ts'
import type { FlowJob, NewFlow } from '../../jobs/new-flow.ts'
import type { Context } from './context.ts'
import { autocommit } from './retry-connection.ts'
import { ageingText, reachedBy, termsText } from './job-columns.ts'
import { readAsync } from '../shared/reading.ts'
import { getFlow } from '../shared/stored-flows.ts'
import { recordQueuesOf } from './queues.ts'
import { usesText, weightsText } from './lane-key.ts'

type Column = readonly (string | number | null)[]

const START = `SELECT sluice.check_ageing($27), sluice.start_flow($1::uuid, $2, $3, $4::int, $5, $6::int[], $7::int[], $8::uuid[], $9::text[], $10::text[], $11::text[], $12::int[], $13::int[],
  $14::bigint[], $15::bigint[], $16::bigint[], $17::text[], $18::text[], $19::text[], $20::text[], $21::text[], $22::int[], $23::int[], $24::int[], $25::int[], $26::json[])`
const OWN = 'UPDATE sluice.flows SET owner = $2, owner_queue = $3 WHERE id = $1::uuid'

/**
 * Stores a flow with all its jobs in one statement; a second one notes the tenant that owns it. Like an enqueue it blocks
 * no other transaction and waits for none.
 * @param again an earlier try, whose answer was lost, may have stored it
 */
export async function startFlow(context: Context, db: Statements, flow: NewFlow, again: boolean): Promise<void> {
  if (again && (await readAsync(getFlow({ db }, flow.id)))) return
  await autocommit(context, db, () => store(context, db, flow))
  for (const { job } of [...flow.nodes, ...Object.values(flow.callbacks)]) context.queues.met(job.queue)
  await recordQueuesOf(context, db)
}

async function store(context: Context, db: Statements, flow: NewFlow): Promise<void> {
  const { id, kind, name, nodes, callbacks, extra } = flow
  const rows = nodes.map((given, node) => rowOf(context, given, node, given.after.length))
  for (const [i, callback] of CALLBACKS.entries()) {
    const given = callbacks[callback]
    if (given) rows.push(rowOf(context, given, nodes.length + i, 1))
  }
  const edges = nodes.flatMap(({ after }, node) => after.map((before) => [before, node] as const))
  const columns = (rows[0] as Column).map((_, i) => rows.map((row) => row[i] ?? null))
  const graph = [edges.map(([before]) => before), edges.map(([, node]) => node)]
  const start = (within: Statements): Promise<unknown> =>
    within.all(START, id, kind, name, nodes.length, extra, ...graph, ...columns, ageingText(context))
  const owner = ownerOfPlain(flow)
  if (!owner) return void (await start(db))
  await inTransaction(db, async (within) => {
    await start(within)
    await within.run(OWN, id, owner.tenant, owner.queue)
  })
}

/** A job as a row of the columns of `start_flow`. */
function rowOf(context: Context, { job, delayUs }: FlowJob, node: number, waits: number): Column {
  return [
    job.id,
    job.task,
    job.queue,
    laneKey(job.queue, job.uses, job.fairKey ?? null),
    job.priority,
    job.maxAttempts,
    job.runAtMs === null ? null : Math.round(job.runAtMs * 1000),
    delayUs,
    job.expiresAtMs === null ? null : Math.round(job.expiresAtMs * 1000),
    usesText(job),
    weightsText(job.uses),
    job.input,
    job.extra,
    job.fairKey ?? null,
    job.share ?? 1,
    reachedBy(context, job),
    node,
    waits,
    job.terms ? termsText(job.terms) : null,
  ]
}
