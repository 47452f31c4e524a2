import { z } from 'zod'
import { isStorable } from '../../base/text.ts'
import type { KeyCount } from '../../store/contract/limits.ts'
import { sharedByAll } from '../access.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { queryNumber } from '../query-number.ts'
import { invalidCursor } from '../refusal.ts'
import { ownName } from '../tenant.ts'
import { timeOf } from './job-json.ts'
import { definedLimit, limitJson } from './rate-limits.ts'
import { RateLimitKey } from './schemas.ts'

type Place = Pick<KeyCount, 'key' | 'waiting'>

const Params = z.object({ key: RateLimitKey })
const Cursor = z.tuple([z.enum(['waiting', 'key']), z.int().min(0), z.string().refine(isStorable)])

/** Lists the budgets of a limit by page. */
export const listRateLimitKeys: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/rate-limits/:key/keys',
  name: 'listRateLimitKeys',
  summary: 'List the budgets of a rate limit by its partition keys, those with the most waiting jobs first.',
  params: Params,
  query: z.object({
    sort: z.enum(['waiting', 'key']).default('waiting'),
    limit: queryNumber(1, 100).default(25),
    cursor: z.string().max(4096).optional(),
  }),
  answers: { 200: 'The budgets, and the cursor of the next page; null on the last page.' },
  async run(call) {
    const { server, query, params } = call
    const { name } = await definedLimit(call, params.key)
    const store = await server.remote.store()
    const own = onlyKeyOf(call, params.key)
    const found =
      own === null
        ? await store.limitKeys({
            limit: name,
            sort: query.sort,
            after: query.cursor === undefined ? null : readCursor(query.cursor, query.sort),
            rows: query.limit + 1,
          })
        : [{ key: own, waiting: 0 }]
    const shown = found.slice(0, query.limit)
    const last = shown.at(-1)
    const cursor = last && found.length > query.limit ? writeCursor(last, query.sort) : null
    const items = await Promise.all(
      shown.map(async ({ key, waiting }) => {
        const [bucket] = await store.inspect(name, key)
        return {
          key: key === '' ? null : key,
          waiting: own === null ? waiting : (bucket?.waiting ?? 0),
          available: bucket?.available,
          capacity: bucket?.capacity,
          debt: bucket?.debt,
          active: bucket?.active,
          next_start: time(bucket?.nextStartUs),
          drained: time(bucket?.drainedUs),
        }
      }),
    )
    return ok({ limit: params.key, items, cursor, pagination: { has_more: cursor !== null, next_cursor: cursor } })
  },
})

/** Ends the changes made to a limit at run time. */
export const deleteRateLimit: Operation = operation({
  method: 'DELETE',
  path: '/ojs/v1/rate-limits/:key',
  name: 'deleteRateLimit',
  summary: 'End the override and the pause of a rate limit, or of one partition. Its definition applies again.',
  params: Params,
  query: z.object({ partition: z.string().max(1024).optional() }),
  answers: { 200: 'The effective limit; deleted: whether it had an override or a pause.' },
  async run(call) {
    const { params, query, server } = call
    if (call.tenant !== '' && server.limits.isShared(params.key)) throw sharedByAll(params.key)
    call.concerns(server.limits.ownerOf(ownName(call.tenant, params.key), query.partition))
    const found = await definedLimit(call, params.key)
    const name = ownName(call.tenant, params.key)
    const { limits } = server.sluice
    const overridden = await limits.clearOverride(name, query.partition, { by: 'http' })
    const paused = await limits.resume(name, query.partition, { by: 'http' })
    server.remote.notify()
    return ok({ ...(await limitJson(call, found, query.partition)), deleted: overridden || paused })
  },
})

/** The only visible key of a limit that all tenants share: the tenant's own; null: all keys are visible. */
function onlyKeyOf({ server, tenant }: Call<unknown, unknown, unknown>, name: string): string | null {
  const { limits } = server
  return tenant !== '' && limits.isShared(name) && limits.isKeyed(name) ? tenant : null
}

function writeCursor({ key, waiting }: Place, sort: 'waiting' | 'key'): string {
  return Buffer.from(JSON.stringify([sort, waiting, key])).toString('base64url')
}

/** @throws {Refusal} 400 */
function readCursor(cursor: string, sort: 'waiting' | 'key'): Place {
  const read = Cursor.safeParse(parsed(Buffer.from(cursor, 'base64url').toString()))
  if (!read.success || read.data[0] !== sort) throw invalidCursor()
  const [, waiting, key] = read.data
  return { key, waiting }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}

function time(us: number | null | undefined): string | null {
  return us === null || us === undefined ? null : timeOf(us)
}
