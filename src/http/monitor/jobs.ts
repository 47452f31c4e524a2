import { createHash } from 'node:crypto'
import { z } from 'zod'
import { countMatches, Reach, searchJobs } from '../../engine/api/find-jobs.ts'
import { placeOf } from '../../engine/api/job-page.ts'
import { viewOf } from '../../engine/api/job-view.ts'
import type { JobFilter } from '../../jobs/job-filter.ts'
import { FILTER_LISTS } from '../../jobs/job-filter-text.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Operation } from '../operation.ts'
import { queryNumber } from '../query-number.ts'
import { invalidCursor } from '../refusal.ts'
import { JobRow, jobRow } from './job-json.ts'
import { monitorOperation, TimeOrNull } from './monitor-operation.ts'
import { filterInQuery, seenMatch } from './seen-jobs.ts'

const Text = z.string().optional()
const FILTER = {
  state: Text.meta({ description: 'States with commas between them.' }),
  queue: Text,
  task: Text,
  tag: Text.meta({ description: 'May come several times: all of them.' }),
  limit: Text.meta({ description: 'The name of a limit that the job needs.' }),
  key: Text.meta({ description: 'With limit: its key.' }),
  flow: Text,
  schedule: Text,
  error: Text.meta({ description: 'The code of its error, or a part of its message.' }),
  uniqueKey: Text,
  id: Text.meta({ description: 'Ids with commas between them.' }),
  q: Text.meta({ description: 'A text in the id, the unique key, the payload, the error, the tags or the metadata.' }),
  since: Text.meta({ description: 'An instant in RFC 3339, or so long ago, such as 1h.' }),
  until: Text,
}
const Looked = z.object({
  rows: z.number(),
  complete: z.boolean().meta({ description: 'False: older jobs may match too; the cursor continues.' }),
  until: TimeOrNull.meta({ description: 'It looked at all jobs that are newer.' }),
})

/** Lists jobs. */
export const listJobs: Operation = monitorOperation({
  method: 'GET',
  path: '/jobs',
  name: 'monitorJobs',
  summary:
    'Search jobs, newest first. A search without an index looks at 200,000 jobs or for 500 ms, and says how far it looked.',
  repeats: FILTER_LISTS,
  query: z.looseObject({
    ...FILTER,
    size: queryNumber(1, 200).default(50),
    cursor: z.string().max(200).optional(),
  }),
  answer: z.object({ jobs: z.array(JobRow), cursor: z.string().nullable(), looked: Looked }),
  async run(call) {
    const { size, cursor } = call.query
    const filter = filterInQuery(call, ['size', 'cursor'])
    const match = seenMatch(call, filter)
    const place = cursor === undefined ? null : readCursor(cursor, filter)
    if (!match) return { jobs: [], cursor: null, looked: { rows: 0, complete: true, until: null } }
    const store = await call.server.remote.store()
    const reach = new Reach(call.server.clock)
    const { found, rows, from } = await searchJobs(store, match, size + 1, place ?? undefined, reach)
    const shown = found.slice(0, size)
    const last = shown.at(-1)
    const isFull = found.length > size
    const next = isFull && last ? placeOf(last, filter) : from
    return {
      jobs: shown.map((job) => jobRow(call, viewOf(job))),
      cursor: next === null ? null : writeCursor(next, filter),
      looked: {
        rows,
        complete: from === null,
        until: from === null ? null : await timeAt(store, from),
      },
    }
  },
})

/** Counts jobs. */
export const countTheJobs: Operation = monitorOperation({
  method: 'GET',
  path: '/jobs/count',
  name: 'monitorCountJobs',
  summary: 'Count the jobs that match a filter. A count that takes long ends early: then at least so many match.',
  repeats: FILTER_LISTS,
  query: z.looseObject(FILTER),
  answer: z.object({ count: z.number(), exact: z.boolean() }),
  async run(call) {
    const match = seenMatch(call, filterInQuery(call, []))
    if (!match) return { count: 0, exact: true }
    const reach = new Reach(call.server.clock)
    const { found, from } = await countMatches(await call.server.remote.store(), match, undefined, reach)
    return { count: found, exact: from === null }
  },
})

async function timeAt(store: Store, seq: number): Promise<string | null> {
  const [job] = await store.list({ before: seq + 1, limit: 1 })
  return job ? new Date(job.createdUs / 1000).toISOString() : null
}

function writeCursor(place: number, filter: JobFilter): string {
  return Buffer.from(`m${place}.${digestOf(filter)}`).toString('base64url')
}

/** @throws {Refusal} 400 */
function readCursor(cursor: string, filter: JobFilter): number {
  const [, place, digest] =
    /^m(\d{1,15})\.([0-9a-f]{16})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1')) ?? []
  if (place === undefined || digest !== digestOf(filter)) throw invalidCursor()
  return Number(place)
}

function digestOf(filter: JobFilter): string {
  const text = JSON.stringify(Object.entries(filter).toSorted(([a], [b]) => (a < b ? -1 : 1)))
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}
