import { z } from 'zod'
import { countMatches } from '../../engine/api/find-jobs.ts'
import type { JobMatch, TimeBound } from '../../jobs/job-filter.ts'
import { jobFilterOfTexts } from '../../jobs/job-filter-text.ts'
import { knownQueue } from '../../engine/api/queues.ts'
import type { JobChange } from '../../store/contract/change-jobs.ts'
import { callerOf } from '../held-open.ts'
import { type Call, operation, type Operation } from '../operation.ts'
import { Priority } from '../priority.ts'
import { invalid, notFound } from '../refusal.ts'
import type { BulkRecord } from './bulk-runner.ts'
import { monitorOperation, Reason, Time, TimeOrNull, Why } from './monitor-operation.ts'
import { seenBy } from './seen.ts'
import { seenMatch } from './seen-jobs.ts'

type AnyCall = Call<unknown, unknown, unknown>

const ACTIONS = ['cancel', 'retry', 'delete', 'move', 'priority'] as const
const Value = z.union([z.string().max(1000), z.array(z.string().max(1000)).max(1000)])
const Body = z.strictObject({
  action: z.enum(ACTIONS),
  filter: z.record(z.string(), Value).meta({ description: 'The fields of a search of jobs, by their names there.' }),
  all: z.literal(true).optional().meta({ description: 'Has to be set if the filter is empty.' }),
  to: z.string().min(1).max(255).optional().meta({ description: 'With move: the queue.' }),
  priority: Priority.optional(),
  dryRun: z.boolean().optional().meta({ description: 'Only counts.' }),
  reason: Reason,
})
const BulkJson = z.object({
  id: z.string(),
  action: z.enum(ACTIONS),
  filter: z.record(z.string(), z.unknown()),
  state: z.enum(['running', 'done', 'stopped', 'failed']),
  total: z.number().meta({ description: 'Jobs that the change applied to when it was asked.' }),
  done: z.number().meta({ description: 'The same as changed.' }),
  changed: z.number(),
  by: z.string(),
  reason: z.string().nullable(),
  createdAt: Time,
  updatedAt: Time,
  finishedAt: TimeOrNull,
  error: z.string().nullable(),
})
BulkJson.register(z.globalRegistry, { id: 'MonitorBulk' })
const OfBulk = z.object({ id: z.string().min(1).max(64) })

/** Changes all jobs that match. */
export const startBulk: Operation = operation({
  method: 'POST',
  path: '/monitor/v1/bulk',
  name: 'monitorStartBulk',
  summary:
    'Cancel, retry, delete or move all jobs that match, or give them another priority. The server goes on by itself.',
  api: 'monitor',
  query: z.strictObject({}),
  body: Body,
  answers: { 202: 'The change has begun; with dryRun (200) the number of jobs that it would apply to.' },
  answer: z.union([BulkJson, z.object({ count: z.number(), exact: z.boolean() })]),
  async run(call) {
    const letGo = call.server.heldOpen.take(call.access, 'bulks')
    try {
      const { body, server } = call
      const { action, filter, reason = null } = body
      const change = changeOf(call, body)
      const match = await matchOf(call, change, body)
      const total = match ? (await countMatches(await server.remote.store(), match, change)).found : 0
      if (body.dryRun) {
        letGo()
        return { status: 200, body: { count: total, exact: true }, unchanged: true }
      }
      const given = {
        id: server.newId(),
        action,
        filter,
        change,
        // No job can match: the change ends at once.
        match: match ?? { ids: [] },
        total,
        by: call.access.name,
        caller: callerOf(call.access),
        reason,
        tenant: seenBy(call).tenant,
        createdMs: server.clock.now(),
      }
      return { status: 202, body: bulkJson(await server.monitor.bulks.start(given, letGo)) }
    } catch (error) {
      letGo()
      throw error
    }
  },
})

/** Lists changes of many jobs. */
export const listBulks: Operation = monitorOperation({
  method: 'GET',
  path: '/bulk',
  name: 'monitorBulks',
  summary: 'List the changes of many jobs, newest first.',
  answer: z.object({ bulks: z.array(BulkJson) }),
  run: async (call) => ({ bulks: (await seenBulks(call)).map(bulkJson) }),
})

/** Shows a change of many jobs. */
export const getBulk: Operation = monitorOperation({
  method: 'GET',
  path: '/bulk/:id',
  name: 'monitorBulk',
  summary: 'Show a change of many jobs, and how far it has come.',
  params: OfBulk,
  answer: BulkJson,
  run: async (call) => bulkJson(await named(call)),
})

/** Stops a change of many jobs. */
export const stopBulk: Operation = monitorOperation({
  method: 'POST',
  path: '/bulk/:id/stop',
  name: 'monitorStopBulk',
  summary: 'Stop a change of many jobs after the batch at work.',
  params: OfBulk,
  body: Why,
  answer: BulkJson,
  async run(call) {
    const { id, state } = await named(call)
    if (state === 'running') await call.server.monitor.bulks.stop(id)
    return bulkJson(await named(call))
  },
})

async function seenBulks(call: AnyCall): Promise<BulkRecord[]> {
  const { tenant } = seenBy(call)
  return (await call.server.monitor.bulks.list()).filter((each) => tenant === null || each.tenant === tenant)
}

/** @throws {Refusal} 404 */
async function named(call: Call<{ readonly id: string }, unknown, unknown>): Promise<BulkRecord> {
  const found = (await seenBulks(call)).find(({ id }) => id === call.params.id)
  if (!found) throw notFound('bulk', call.params.id)
  return found
}

/** @throws {Refusal} 400 for a member that the action lacks, or does not take */
function changeOf(call: AnyCall, { action, to, priority }: z.output<typeof Body>): JobChange {
  if ((to === undefined) === (action === 'move'))
    throw invalid(action === 'move' ? 'to is missing. Expected the queue.' : 'to belongs to the action move.')
  if ((priority === undefined) === (action === 'priority'))
    throw invalid(action === 'priority' ? 'priority is missing.' : 'priority belongs to the action priority.')
  if (action === 'move' || action === 'priority')
    return { kind: 'place', queue: to === undefined ? null : seenBy(call).stored(to), priority: priority ?? null }
  return { kind: action }
}

/** The jobs that a change applies to; null: none can match. @throws {Refusal} 400 for an empty filter */
async function matchOf(
  call: AnyCall,
  change: JobChange,
  { all, filter, to }: z.output<typeof Body>,
): Promise<JobMatch | null> {
  const fields = Object.entries(filter).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each) => [name === 'q' ? 'text' : name, each] as const),
  )
  if (fields.length === 0 && all !== true)
    throw invalid('filter is empty. Expected at least one field, or all: true for every job.')
  const match = seenMatch(call, jobFilterOfTexts(fields, 'filter'))
  const { clock, remote } = call.server
  if (change.kind === 'place' && change.queue !== null) await knownQueue(await remote.store(), change.queue, to ?? '')
  return match && boundedBy(match, clock.now())
}

/** Bounds a filter to the jobs that are there: later ones are not touched, even if the change is repeated. */
function boundedBy(match: JobMatch, nowMs: number): JobMatch {
  const fixed = (bound: TimeBound): { atMs: number } => ('atMs' in bound ? bound : { atMs: nowMs - bound.agoUs / 1000 })
  // Jobs of this very ms are there.
  const until = Math.min(match.until ? fixed(match.until).atMs : Infinity, nowMs + 1)
  return { ...match, ...(match.since && { since: fixed(match.since) }), until: { atMs: until } }
}

function bulkJson(record: BulkRecord): object {
  const { id, action, filter, state, total, changed, by, reason, error } = record
  const time = (ms: number): string => new Date(ms).toISOString()
  return {
    id,
    action,
    filter,
    state,
    total,
    done: changed,
    changed,
    by,
    reason,
    createdAt: time(record.createdMs),
    updatedAt: time(record.updatedMs),
    finishedAt: record.finishedMs === null ? null : time(record.finishedMs),
    error,
  }
}
