import type { Clock } from '../../base/clock.ts'
import type { PgValue, Statements } from '../../database/statements.ts'
import { inTransaction } from '../../database/postgres-transaction.ts'
import { ownerOfQueue } from '../../jobs/flow.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { NewWorkflow } from '../../jobs/workflow.ts'
import type { StartedWorkflow } from '../contract/workflows.ts'
import { readAsync } from '../shared/reading.ts'
import { storedFlowState } from '../shared/stored-flows.ts'
import { flowMemory } from '../shared/workflows/memory.ts'
import { allTaken, membersOf, startWorkflows } from '../shared/workflows/start.ts'
import { ClaimCarrier } from './claim-carrier.ts'
import type { Context } from './context.ts'
import { isPlain } from './enqueue.ts'
import { ageingText, columnsOf, JOB_TYPES, typedList } from './job-columns.ts'
import type { Clocks } from './parent-results.ts'
import { accessOf } from './shared-sql.ts'
import type { Notifier } from './watch.ts'

const FLOW_TYPES = 'uuid text text int text text text text text text'.split(' ')
const TYPES = [...FLOW_TYPES, 'int', 'int', 'text', ...JOB_TYPES]
const start = (terms: string): string =>
  `sluice.check_ageing($${TYPES.length + 1}), sluice.start_workflows(${typedList(TYPES)}${terms})`

/**
 * Stores flows that are started together in one statement, which a claim may join if none has a key. Where another flow
 * has a key, they are stored in a transaction. Flows that an earlier try stored are not stored twice, even if its answer
 * was lost.
 */
export function batchStarts(
  context: Context,
  clock: Clock,
  notifier: Notifier,
): ClaimCarrier<NewWorkflow, StartedWorkflow> {
  return new ClaimCarrier(context, clock, notifier, {
    jobOf: ({ job }) => job,
    areInserted: haveOwnKeys,
    isPlain: ({ deadline, delayUs, job, key }) => key === null && deadline === null && delayUs === null && isPlain(job),
    insert: start,
    parameters: TYPES.length + 1,
    valuesOf: (flows) => startValues(context, flows),
    created: ({ job: { id } }) => ({ kind: 'created', id }),
    write: async (db, flows, again) => {
      const taken = again ? null : await readAsync(allTaken({ db }, flows))
      if (taken) return [...taken]
      const startAll = (within: Statements): Promise<readonly StartedWorkflow[]> =>
        readAsync(startWorkflows(accessOf(context, within), flows))
      return [...(await inTransaction(db, startAll))]
    },
    placeOf,
  })
}

/** Flows as the parameters of `start_workflows`. */
function startValues(context: Context, flows: readonly NewWorkflow[]): PgValue[] {
  const rows = flows.map(({ definition, deadline, extra, hash, job, kind, name, owner }) => {
    const { tenant, queue } = owner ?? ownerOfQueue(job.queue)
    return [job.id, kind, name, deadline ? 2 : 1, extra, hash, definition, tenant, queue]
  })
  const members = flows.flatMap((flow, at) => membersOf(flow, at + 1))
  const jobs = members.map(({ delayUs, job }) => ({ ...job, delayUs }))
  return [
    ...FLOW_TYPES.slice(0, -1).map((_, i) => rows.map((row) => row[i] ?? null)),
    flows.some(({ key }) => key !== null) ? flows.map(({ key }) => key) : null,
    members.map(({ flow }) => flow),
    members.map(({ node }) => node),
    members.map(({ step }) => step),
    ...columnsOf(context, jobs),
    ageingText(context),
  ]
}

/** Whether no two flows have one key. */
function haveOwnKeys(flows: readonly NewWorkflow[]): boolean {
  const keyed = flows.filter(({ key }) => key !== null)
  return keyed.length < 2 || new Set(keyed.map(({ key, name }) => `${name} ${key}`)).size === keyed.length
}

/** The place of the main job of a flow that was stored just now, and the memory of that flow. */
function placeOf(
  { definition, extra: _, hash, job: { id, input }, key, kind, name, step }: NewWorkflow,
  { createdUs }: GrantedJob,
  { now, wall }: Clocks,
): Pick<GrantedJob, 'flow' | 'memory'> {
  const workflow = { kind, step, item: null, moves: 0 }
  const counts = { generation: 0, events: 0, open: 0, total: 1, held: null }
  const flow = { id, kind, name, key, definition, hash, input, createdUs, state: storedFlowState('running'), ...counts }
  return {
    flow: { id, node: 0, callback: null, parentResults: [], workflow },
    memory: flowMemory(flow, [], [], { nowUs: now, wallUs: wall }),
  }
}

/** Stores flows in the caller's transaction: other processes see them after its commit, and are notified then. */
export async function startWithin(
  context: Context,
  notifier: Notifier,
  db: Statements,
  flows: readonly NewWorkflow[],
): Promise<readonly StartedWorkflow[]> {
  const started = await readAsync(startWorkflows(accessOf(context, db), flows))
  await notifier.notifyWithin(db)
  return started
}
