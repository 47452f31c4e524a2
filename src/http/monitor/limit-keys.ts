import { z } from 'zod'
import type { BucketView } from '../../engine/api/bucket-view.ts'
import { isStorable } from '../../base/text.ts'
import type { KeyCount } from '../../store/contract/limits.ts'
import type { Call, Operation } from '../operation.ts'
import { invalid } from '../refusal.ts'
import { BucketJson, bucketJson } from './limit-json.ts'
import { requireLimit } from './limits.ts'
import { monitorOperation, Name } from './monitor-operation.ts'
import { onlyKey, storedLimit } from './seen.ts'

type AnyCall = Call<unknown, unknown, unknown>

/** Budgets that an order by their state looks at, those with the most waiting jobs first. */
const ORDERED_AT_MOST = 1000
const AT_ONCE = 16

const Params = z.object({ name: Name })
const SORTS = ['waiting', 'key', 'used', 'next'] as const
const Cursor = z.tuple([z.enum(SORTS), z.int().min(0), z.string().refine(isStorable)])

/** Lists the budgets of a limit by key. */
export const listKeys: Operation = monitorOperation({
  method: 'GET',
  path: '/limits/:name/keys',
  name: 'monitorLimitKeys',
  summary:
    'List the budgets of a limit by key. Orders by used budget and by next start look at the 1,000 keys with the most waiting jobs.',
  params: Params,
  query: z.strictObject({
    sort: z.enum(SORTS).default('waiting'),
    limit: z.coerce.number().int().min(1).max(200).default(50),
    cursor: z.string().max(8192).optional(),
  }),
  answer: z.object({
    keys: z.array(BucketJson),
    cursor: z.string().nullable(),
    sort: z.enum(SORTS),
    partial: z.boolean().meta({ description: 'The order covers the keys with the most waiting jobs only.' }),
  }),
  async run(call) {
    const { name } = call.params
    const { sort, limit, cursor } = call.query
    const stored = storedLimit(call, name)
    await requireLimit(call, stored, name)
    const after = cursor === undefined ? null : readCursor(cursor, sort)
    const only = onlyKey(call, stored)
    if (only !== null) return { keys: await buckets(call, stored, [only]), cursor: null, sort, partial: false }
    return sort === 'waiting' || sort === 'key'
      ? byStore(call, stored, { sort, limit, after })
      : byState(call, stored, { sort, limit, after })
  },
})

interface Page<Sort> {
  readonly sort: Sort
  readonly limit: number
  readonly after: KeyCount | null
}

interface Listed {
  readonly keys: object[]
  readonly cursor: string | null
  readonly sort: (typeof SORTS)[number]
  readonly partial: boolean
}

async function byStore(call: AnyCall, limit: string, page: Page<'waiting' | 'key'>): Promise<Listed> {
  const store = await call.server.remote.store()
  const found = await store.limitKeys({ limit, sort: page.sort, after: page.after, rows: page.limit + 1 })
  const shown = found.slice(0, page.limit)
  const last = shown.at(-1)
  return {
    keys: await buckets(
      call,
      limit,
      shown.map(({ key }) => key),
    ),
    cursor: last && found.length > page.limit ? writeCursor(last, page.sort) : null,
    sort: page.sort,
    partial: false,
  }
}

/** The state of a bucket changes with time, so no index has these orders: the cursor counts rows. */
async function byState(call: AnyCall, limit: string, page: Page<'used' | 'next'>): Promise<Listed> {
  const store = await call.server.remote.store()
  const found = await store.limitKeys({ limit, sort: 'waiting', after: null, rows: ORDERED_AT_MOST + 1 })
  const views = await viewsOf(
    call,
    limit,
    found.slice(0, ORDERED_AT_MOST).map(({ key }) => key),
  )
  const rank = page.sort === 'used' ? usedShare : untilNext
  const ordered = views.map((view) => ({ view, rank: rank(view) })).toSorted((a, b) => a.rank - b.rank)
  const from = page.after?.waiting ?? 0
  const shown = ordered.slice(from, from + page.limit)
  const more = ordered.length > from + shown.length
  return {
    keys: shown.map(({ view }) => bucketJson(call, view)),
    cursor: more ? writeCursor({ key: '', waiting: from + shown.length }, page.sort) : null,
    sort: page.sort,
    partial: found.length > ORDERED_AT_MOST,
  }
}

function usedShare({ available, capacity, debt }: BucketView): number {
  return capacity === 0 ? -1 : (available - capacity - debt) / capacity
}

function untilNext({ nextStart, waiting }: BucketView): number {
  return nextStart?.getTime() ?? (waiting > 0 ? Number.MAX_SAFE_INTEGER - 1 : Number.MAX_SAFE_INTEGER)
}

async function buckets(call: AnyCall, limit: string, keys: readonly string[]): Promise<object[]> {
  return (await viewsOf(call, limit, keys)).map((view) => bucketJson(call, view))
}

async function viewsOf(call: AnyCall, limit: string, keys: readonly string[]): Promise<BucketView[]> {
  const found: BucketView[] = []
  for (let from = 0; from < keys.length; from += AT_ONCE) {
    const some = keys.slice(from, from + AT_ONCE)
    found.push(...(await Promise.all(some.map((key) => call.server.sluice.limits.inspect(limit, key)))).flat())
  }
  return found
}

function writeCursor({ key, waiting }: KeyCount, sort: (typeof SORTS)[number]): string {
  return Buffer.from(JSON.stringify([sort, waiting, key])).toString('base64url')
}

/** @throws {Refusal} 400 */
function readCursor(cursor: string, sort: (typeof SORTS)[number]): KeyCount {
  const read = Cursor.safeParse(parsed(Buffer.from(cursor, 'base64url').toString()))
  if (!read.success || read.data[0] !== sort)
    throw invalid('cursor is invalid. Expected a cursor of this list in this order; omit it to start over.')
  return { waiting: read.data[1], key: read.data[2] }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}
