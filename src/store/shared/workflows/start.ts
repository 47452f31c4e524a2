import { keyOfTenant, ownerOfQueue } from '../../../jobs/flow.ts'
import type { NewWorkflow } from '../../../jobs/workflow.ts'
import type { StartedWorkflow } from '../../contract/workflows.ts'
import { ask, type Reading } from '../reading.ts'
import { type FlowAccess, all, now } from '../sql.ts'
import { storedFlowState } from '../stored-flows.ts'
import type { Member } from './place.ts'

/** A flow's place under the flow that started it. */
export interface Parent {
  readonly flow: number
  readonly step: string
  readonly generation: number
  readonly depth: number
}

/** A flow to store. */
export interface Start {
  readonly flow: NewWorkflow
  readonly parent: Parent | null
  /** The flow that starts it, also one that does not wait for it; null: none. */
  readonly starter: number | null
}

// A flow belongs to the owner of the flow that starts it.
const ownFromStarter = (column: string, at: number): string =>
  `coalesce(e.value ->> ${at}, (SELECT s.${column} FROM sluice.flows s WHERE s.seq = (e.value ->> 15)::bigint))`
const INSERT = `INSERT INTO sluice.flows (id, kind, name, total, edges, created, extra, key, hash, definition, parent, parent_step, parent_generation, depth, owner, owner_queue)
  SELECT (e.value ->> 0)::uuid, e.value ->> 1, e.value ->> 2, (e.value ->> 3)::int, 0, (e.value ->> 4)::bigint, e.value ->> 5, e.value ->> 6, e.value ->> 7,
    e.value ->> 8, (e.value ->> 9)::bigint, e.value ->> 10, (e.value ->> 11)::int, (e.value ->> 12)::int,
    ${ownFromStarter('owner', 13)}, ${ownFromStarter('owner_queue', 14)}
  FROM json_array_elements($1::json) e WHERE true
  ON CONFLICT DO NOTHING RETURNING seq, id`
const BY_ID = 'SELECT id FROM sluice.flows WHERE id = ANY ($1::uuid[])'
const BY_KEY = `SELECT e.value ->> 0, f.id FROM json_array_elements($1::json) e CROSS JOIN sluice.flows f
  WHERE f.name = e.value ->> 1 AND f.key = e.value ->> 2 AND f.state = ${storedFlowState('running')}`
const TENANTS = `SELECT seq, owner FROM sluice.flows WHERE seq = ANY ($1::bigint[]) AND owner <> ''`
/** The holder of a key may end between two looks at it. */
const TRIES = 3

/** Stores workflow flows; by key at most one of a name runs. */
export function* startWorkflows(
  access: FlowAccess,
  flows: readonly NewWorkflow[],
): Reading<readonly StartedWorkflow[]> {
  const started = yield* insertFlows(
    access,
    flows.map((flow) => ({ flow, parent: null, starter: null })),
  )
  return flows.map((flow) => answerOf(flow, started.get(flow.job.id) as string))
}

function answerOf({ job, onConflict }: NewWorkflow, id: string): StartedWorkflow {
  if (id === job.id) return { kind: 'created', id }
  return { kind: onConflict === 'join' ? 'duplicate' : 'conflict', id }
}

/** The answers for flows whose keys running flows have; null: of some the key is free. */
export function* allTaken(
  { db }: Pick<FlowAccess, 'db'>,
  flows: readonly NewWorkflow[],
): Reading<readonly StartedWorkflow[] | null> {
  if (flows.some(({ key }) => key === null)) return null
  const keys = flows.map(({ job, name, key }) => [job.id, name, key])
  const others = new Map(yield* all<[string, string]>(db, BY_KEY, JSON.stringify(keys)))
  return others.size < flows.length ? null : flows.map((flow) => answerOf(flow, others.get(flow.job.id) as string))
}

/** Stores flows with their jobs. Returns for each id its own, or that of the running flow which has its key. */
export function* insertFlows(access: FlowAccess, starts: readonly Start[]): Reading<Map<string, string>> {
  const ids = new Map<string, string>()
  const { nowUs } = yield* now(access)
  let open = (yield* withOwnKeys(access, starts)).sort(byKey)
  for (let tried = 0; open.length > 0; tried++) {
    if (tried >= TRIES) throw new RangeError('The keys of these flows changed hands again and again. Try again')
    const rows = open.map((start) => rowOf(start, nowUs))
    const made = yield* all<[number, string]>(access.db, INSERT, JSON.stringify(rows))
    const seqs = new Map(made.map(([seq, id]) => [id, seq]))
    const members = open.flatMap(({ flow }) => membersOf(flow, seqs.get(flow.job.id)))
    if (members.length > 0) yield* ask(() => access.insertMembers(members))
    for (const id of seqs.keys()) ids.set(id, id)
    open = open.filter(({ flow }) => !ids.has(flow.job.id))
    yield* findOthers(access, open, ids)
    open = open.filter(({ flow }) => !ids.has(flow.job.id))
  }
  return ids
}

/** A flow that belongs to a tenant starts others under keys of that tenant. */
function* withOwnKeys({ db }: FlowAccess, starts: readonly Start[]): Reading<Start[]> {
  const starters = starts.flatMap(({ flow: { key, owner }, starter }) => (key === null || owner ? [] : (starter ?? [])))
  if (starters.length === 0) return [...starts]
  const tenants = new Map(yield* all<[seq: number, tenant: string]>(db, TENANTS, starters))
  return starts.map((start) => {
    const { flow, starter } = start
    const tenant = starter === null || flow.owner ? undefined : tenants.get(starter)
    if (tenant === undefined || flow.key === null) return start
    return { ...start, flow: { ...flow, key: keyOfTenant(tenant, flow.key) } }
  })
}

/** Finds flows that an earlier try stored, and the running flows that have the keys of others. */
function* findOthers({ db }: FlowAccess, open: readonly Start[], ids: Map<string, string>): Reading<void> {
  if (open.length === 0) return
  const wanted = open.map(({ flow }) => flow.job.id)
  for (const [id] of yield* all<[string]>(db, BY_ID, wanted)) ids.set(id, id)
  const keys = open.flatMap(({ flow: { job, name, key } }) => (key === null ? [] : [[job.id, name, key]]))
  for (const [id, other] of yield* all<[string, string]>(db, BY_KEY, JSON.stringify(keys)))
    if (!ids.has(id)) ids.set(id, other)
}

/** Transactions that wait for each other's keys take them in one order. */
function byKey({ flow: a }: Start, { flow: b }: Start): number {
  if (a.key === null || b.key === null) return Number(a.key !== null) - Number(b.key !== null)
  const [one, other] = [`${a.name} ${a.key}`, `${b.name} ${b.key}`]
  return one < other ? -1 : Number(one > other)
}

function rowOf({ flow, parent, starter }: Start, nowUs: number): readonly (string | number | null)[] {
  const { tenant = null, queue = null } = flow.owner ?? (starter === null ? ownerOfQueue(flow.job.queue) : {})
  const owner = [tenant, queue, starter]
  const { kind, name, key, job, deadline, definition, hash, extra } = flow
  const own = [job.id, kind, name, deadline ? 2 : 1, nowUs, extra, key, hash, definition]
  if (!parent) return [...own, null, null, null, 0, ...owner]
  return [...own, parent.flow, parent.step, parent.generation, parent.depth, ...owner]
}

/** The jobs of a new flow; undefined: the flow was not stored. */
export function membersOf({ job, step, delayUs, deadline }: NewWorkflow, flow: number | undefined): Member[] {
  if (flow === undefined) return []
  const main = { flow, node: 0, step, item: null, attempt: 0, delayUs: delayUs ?? job.delayUs ?? 0, job }
  if (!deadline) return [main]
  return [main, { ...deadline, flow, node: 1, delayUs: deadline.delayUs ?? 0 }]
}
