import { createHash } from 'node:crypto'
import { z } from 'zod'
import { countJobs, searchJobs } from './search-jobs.ts'
import { viewOf } from '../../engine/api/job-view.ts'
import type { JobFilter, JobMatch } from '../../jobs/job-filter.ts'
import type { JobRecord } from '../../jobs/job.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Call, Operation } from '../operation.ts'
import { invalid } from '../refusal.ts'
import { JobRow, jobRow } from './job-json.ts'
import { monitorOperation, TimeOrNull } from './monitor-operation.ts'
import { filterInQuery, seenMatch } from './seen-jobs.ts'

type AnyCall = Call<unknown, unknown, unknown>

/** A search without an index ends after so many jobs, or so long. */
const ROWS_AT_MOST = 200_000
const US_AT_MOST = 500_000

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
  query: z.looseObject({
    ...FILTER,
    size: z.coerce.number().int().min(1).max(200).default(50),
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
    const { found, rows, from } = await pageOf(call, store, match, size, place)
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
  query: z.looseObject(FILTER),
  answer: z.object({ count: z.number(), exact: z.boolean() }),
  async run(call) {
    const match = seenMatch(call, filterInQuery(call, []))
    if (!match) return { count: 0, exact: true }
    const { found, from } = await countJobs(await call.server.remote.store(), match, overAfter(call))
    return { count: found, exact: from === null }
  },
})

/** The end of a search by time and rows. */
function overAfter({ server }: AnyCall): (rows: number) => boolean {
  const beganUs = server.clock.monotonicUs()
  return (rows) => rows >= ROWS_AT_MOST || server.clock.monotonicUs() - beganUs > US_AT_MOST
}

async function pageOf(
  call: AnyCall,
  store: Store,
  match: JobMatch,
  size: number,
  place: number | null,
): Promise<{ found: readonly JobRecord[]; rows: number; from: number | null }> {
  if (match.flow === undefined) return searchJobs(store, match, size + 1, overAfter(call), place ?? undefined)
  // Jobs of a flow come in its order.
  const found = await store.list({ ...match, limit: size + 1, ...(place !== null && { afterNode: place }) })
  return { found, rows: found.length, from: null }
}

function placeOf(last: JobRecord, filter: JobFilter): number {
  return filter.flow === undefined ? last.seq : (last.flow?.node ?? 0)
}

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
  if (place === undefined || digest !== digestOf(filter))
    throw invalid('cursor is invalid. Expected the cursor of an earlier page with the same filter.')
  return Number(place)
}

function digestOf(filter: JobFilter): string {
  const text = JSON.stringify(Object.entries(filter).toSorted(([a], [b]) => (a < b ? -1 : 1)))
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}
