import { z } from 'zod'
import type { JobExplanation } from '../../engine/api/job-explanation.ts'
import { viewOf } from '../../engine/api/job-view.ts'
import { Reach, searchJobs } from '../../engine/api/find-jobs.ts'
import type { JobMatch } from '../../jobs/job-filter.ts'
import type { JobRecord } from '../../jobs/job.ts'
import type { Call, Operation } from '../operation.ts'
import { queryNumber } from '../query-number.ts'
import { notFound } from '../refusal.ts'
import { JobRow, jobRow } from './job-json.ts'
import { keyInPath } from './key-in-path.ts'
import { BucketJson, bucketJson, OverrideJson, overrideJson } from './limit-json.ts'
import { requireLimit } from './limits.ts'
import { monitorOperation, Name, TimeOrNull } from './monitor-operation.ts'
import { queuesSeen, seenBy, seesKey, storedLimit } from './seen.ts'

type AnyCall = Call<unknown, unknown, unknown>

const HOLDERS = 100
const AT_ONCE = 8

const Line = JobRow.and(
  z.object({
    position: z.number().nullable(),
    expectedStart: TimeOrNull,
    exact: z.boolean().meta({ description: 'False: it starts no sooner.' }),
  }),
)

/** Shows one budget of a limit. */
export const getKey: Operation = monitorOperation({
  method: 'GET',
  path: '/limits/:name/keys/:key',
  name: 'monitorLimitKey',
  summary: 'Show one budget of a limit: what is left, the line of its jobs, who holds its permits, and its changes.',
  params: z.object({ name: Name, key: z.string().min(1).max(2048) }),
  query: z.strictObject({ limit: queryNumber(1, 100).default(25) }),
  answer: z.object({
    limit: z.string(),
    bucket: BucketJson,
    line: z.array(Line).meta({ description: 'The first jobs of its line, in their order.' }),
    holders: z.array(JobRow).meta({ description: 'Running jobs that need it.' }),
    history: z.array(OverrideJson).meta({ description: 'Overrides and pauses of it, newest first.' }),
  }),
  async run(call) {
    const { name } = call.params
    const stored = storedLimit(call, name)
    const key = keyInPath(call.params.key)
    await requireLimit(call, stored, name)
    if (!seesKey(call, stored, key)) throw notFound('key', key)
    const { limits } = call.server.sluice
    const [bucket] = await limits.inspect(stored, key)
    if (!bucket) throw notFound('key', key)
    const waiting = await (await call.server.remote.store()).waitList(stored, key, call.query.limit)
    const holders = await holdersOf(call, stored, key)
    const history = (await limits.overrides(stored)).filter((each) => each.key === null || each.key === key)
    return {
      limit: name,
      bucket: bucketJson(call, bucket),
      line: await lineOf(call, waiting),
      holders: holders.map((job) => jobRow(call, viewOf(job))),
      history: history.map((each) => overrideJson(call, each)),
    }
  },
})

/** Running jobs that need a budget, newest first. */
async function holdersOf(call: AnyCall, limit: string, key: string): Promise<readonly JobRecord[]> {
  const store = await call.server.remote.store()
  const match: JobMatch = { states: ['active'], limitName: limit, limitKey: key, ...queuesSeen(seenBy(call)) }
  return (await searchJobs(store, match, HOLDERS, undefined, new Reach(call.server.clock))).found
}

/** The jobs of a line that the caller sees, in their order, with their expected starts. */
async function lineOf(call: AnyCall, ids: readonly string[]): Promise<object[]> {
  const { jobs } = call.server.sluice
  const seen = seenBy(call)
  const found: JobExplanation[] = []
  for (let from = 0; from < ids.length; from += AT_ONCE)
    for (const explained of await Promise.allSettled(ids.slice(from, from + AT_ONCE).map((id) => jobs.explain(id))))
      // A job may end and go meanwhile.
      if (explained.status === 'fulfilled' && seen.owns(explained.value.job.queue)) found.push(explained.value)
  return found
    .map((each) => ({
      ...jobRow(call, each.job),
      position: each.linePosition ?? each.position,
      expectedStart: each.expectedStart?.toISOString() ?? null,
      exact: each.exact,
    }))
    .toSorted((a, b) => (a.position ?? Infinity) - (b.position ?? Infinity))
}
