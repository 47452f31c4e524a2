import { z } from 'zod'
import type { BucketView } from '../../engine/api/bucket-view.ts'
import { isStorable } from '../../base/text.ts'
import { byWaiting } from '../../engine/api/limit-figures.ts'
import type { KeyCount } from '../../store/contract/limits.ts'
import type { Call, Operation } from '../operation.ts'
import { queryNumber } from '../query-number.ts'
import { invalidCursor } from '../refusal.ts'
import { BucketJson, bucketJson } from './limit-json.ts'
import { requireLimit } from './limits.ts'
import { monitorOperation, Name } from './monitor-operation.ts'
import { onlyKey, storedLimit } from './seen.ts'

type AnyCall = Call<unknown, unknown, unknown>

/** Budgets that the order by use looks at, those with the most waiting jobs first. */
const ORDERED_AT_MOST = 1000
/** Buckets that one statement reads: some ms. */
const AT_ONCE = 200
/** The place before the first key for which nothing waits, in the order by next start. */
const BEFORE_IDLE = { wakeAtUs: null }

const Params = z.object({ name: Name })
const SORTS = ['waiting', 'key', 'used', 'next'] as const
const Cursor = z.tuple([z.enum(SORTS), z.int().min(0).nullable(), z.string().refine(isStorable)])

/** Lists the budgets of a limit by key. */
export const listKeys: Operation = monitorOperation({
  method: 'GET',
  path: '/limits/:name/keys',
  name: 'monitorLimitKeys',
  summary:
    'List the budgets of a limit by key. The order by waiting jobs has the 2,000 longest wait lists, and the order by used budget 1,000 keys.',
  params: Params,
  query: z.strictObject({
    sort: z.enum(SORTS).default('waiting'),
    limit: queryNumber(1, 200).default(50),
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
    if (sort === 'waiting') return byWaits(call, stored, { sort, limit, after })
    return sort === 'used' ? byUse(call, stored, { sort, limit, after }) : byStore(call, stored, { sort, limit, after })
  },
})

type Place = Pick<KeyCount, 'key' | 'waiting' | 'wakeAtUs'>

interface Page<Sort> {
  readonly sort: Sort
  readonly limit: number
  readonly after: Place | null
}

interface Listed {
  readonly keys: object[]
  readonly cursor: string | null
  readonly sort: (typeof SORTS)[number]
  readonly partial: boolean
}

/** By key or by next start, as the store has them in order. */
async function byStore(call: AnyCall, limit: string, page: Page<'key' | 'next'>): Promise<Listed> {
  const store = await call.server.remote.store()
  const found = await store.limitKeys({ limit, sort: page.sort, after: page.after, rows: page.limit + 1 })
  return listed(call, limit, page, { found, partial: false })
}

/** The longest wait lists, and behind them the keys for which nothing waits. */
async function byWaits(call: AnyCall, limit: string, page: Page<'waiting'>): Promise<Listed> {
  const store = await call.server.remote.store()
  const { longest, totals } = await call.server.monitor.waitsOf(limit)
  const { after } = page
  const rows = page.limit + 1
  const from = after ? longest.findIndex((each) => byWaiting(each, after) > 0) : 0
  const found = from < 0 || after?.waiting === 0 ? [] : longest.slice(from, from + rows)
  if (found.length < rows) {
    const last = after?.waiting === 0 ? { key: after.key, wakeAtUs: null } : BEFORE_IDLE
    const idle = await store.limitKeys({ limit, sort: 'next', after: last, rows: rows - found.length })
    found.push(...idle.map((each) => ({ ...each, waiting: 0 })))
  }
  return listed(call, limit, page, { found, partial: (totals?.heldKeys ?? 0) > longest.length })
}

async function listed(
  call: AnyCall,
  limit: string,
  page: Page<(typeof SORTS)[number]>,
  { found, partial }: { readonly found: readonly KeyCount[]; readonly partial: boolean },
): Promise<Listed> {
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
    partial,
  }
}

/** The part of a budget in use changes with time, so no index has this order: the cursor counts rows. */
async function byUse(call: AnyCall, limit: string, page: Page<'used'>): Promise<Listed> {
  const { found, partial } = await keysInUse(call, limit)
  const views = await viewsOf(call, limit, found)
  const ordered = views.map((view) => ({ view, rank: usedShare(view) })).toSorted((a, b) => a.rank - b.rank)
  const from = page.after?.waiting ?? 0
  const shown = ordered.slice(from, from + page.limit)
  const more = ordered.length > from + shown.length
  return {
    keys: shown.map(({ view }) => bucketJson(call, view)),
    cursor: more ? writeCursor({ key: '', waiting: from + shown.length, wakeAtUs: null }, page.sort) : null,
    sort: page.sort,
    partial,
  }
}

/** The keys with the longest wait lists, and behind them others. */
async function keysInUse(call: AnyCall, limit: string): Promise<{ found: string[]; partial: boolean }> {
  const { longest } = await call.server.monitor.waitsOf(limit)
  const found = longest.slice(0, ORDERED_AT_MOST)
  const store = await call.server.remote.store()
  const rows = ORDERED_AT_MOST + 1 - found.length
  found.push(...(await store.limitKeys({ limit, sort: 'next', after: BEFORE_IDLE, rows })))
  return { found: found.slice(0, ORDERED_AT_MOST).map(({ key }) => key), partial: found.length > ORDERED_AT_MOST }
}

function usedShare({ available, capacity, debt }: BucketView): number {
  return capacity === 0 ? -1 : (available - capacity - debt) / capacity
}

async function buckets(call: AnyCall, limit: string, keys: readonly string[]): Promise<object[]> {
  return (await viewsOf(call, limit, keys)).map((view) => bucketJson(call, view))
}

/** The buckets of these keys, in their order. */
async function viewsOf(call: AnyCall, limit: string, keys: readonly string[]): Promise<BucketView[]> {
  const found: BucketView[] = []
  for (let from = 0; from < keys.length; from += AT_ONCE) {
    const some = keys.slice(from, from + AT_ONCE)
    const views = Map.groupBy(await call.server.sluice.limits.inspectKeys(limit, some), ({ key }) => key ?? '')
    found.push(...some.flatMap((key) => views.get(key) ?? []))
  }
  return found
}

function writeCursor({ key, waiting, wakeAtUs }: Place, sort: (typeof SORTS)[number]): string {
  return Buffer.from(JSON.stringify([sort, sort === 'next' ? wakeAtUs : waiting, key])).toString('base64url')
}

/** @throws {Refusal} 400 */
function readCursor(cursor: string, sort: (typeof SORTS)[number]): Place {
  const read = Cursor.safeParse(parsed(Buffer.from(cursor, 'base64url').toString()))
  if (!read.success || read.data[0] !== sort) throw invalidCursor()
  const [, place, key] = read.data
  return { waiting: place ?? 0, wakeAtUs: place, key }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}
