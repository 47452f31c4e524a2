import { z } from 'zod'
import type { DetailsQuery } from '../../store/contract/remote-jobs.ts'
import { requireQueue } from '../access.ts'
import type { Call } from '../operation.ts'
import { invalidCursor, unprocessable } from '../refusal.ts'
import { ownName } from '../tenant.ts'
import type { Page } from './schemas.ts'

/** The rows of a page of a list. */
export function rowsOf({ page, per_page: perPage, limit, offset }: Page): { limit: number; offset: number } {
  const size = limit ?? perPage
  return { limit: size, offset: offset ?? (page - 1) * size }
}

/** The start of a page in a list of jobs: the `next_cursor` of the page before it. */
export const Cursor: z.ZodType<string | undefined> = z
  .string()
  .max(64)
  .optional()
  .meta({ description: 'The next_cursor of the page before; it replaces page and offset.' })

/** The rows of a page in a list of jobs, and its bytes. @throws {Refusal} 400 for a cursor that no page returned */
export function jobRowsOf(
  query: Page & { readonly cursor?: string | undefined },
  bytes: number,
): { limit: number; offset: number; bytes: number; after?: number } {
  const rows = { ...rowsOf(query), bytes }
  if (query.cursor === undefined) return rows
  const [, after] = /^j(\d{1,15})$/.exec(Buffer.from(query.cursor, 'base64url').toString('latin1')) ?? []
  if (after === undefined) throw invalidCursor()
  return { ...rows, offset: 0, after: Number(after) }
}

/** The cursor of the next page; null: there is none. */
export function cursorOf(next: number | null): string | null {
  return next === null ? null : Buffer.from(`j${next}`).toString('base64url')
}

/** Cuts a page out of a complete list. */
export function pageOf<T>(
  all: readonly T[],
  query: Page,
): { items: T[]; pagination: { total: number; page: number; per_page: number } } {
  const { limit, offset } = rowsOf(query)
  return { items: all.slice(offset, offset + limit), pagination: paginationOf(all.length, query) }
}

/** The page numbers of a list. */
export function paginationOf(total: number, query: Page): { total: number; page: number; per_page: number } {
  const { limit, offset } = rowsOf(query)
  return { total, page: Math.floor(offset / limit) + 1, per_page: limit }
}

/**
 * Narrows a query to one queue, or to all that the caller may see. Those are the queues of its tenant; an admin
 * without a tenant sees all.
 * @throws {Refusal} 403 for a queue that the token may not name, 422 if the query must name one of several
 */
export function scopeOf(
  { tenant, access }: Call<unknown, unknown, unknown>,
  named?: string,
): Pick<DetailsQuery, 'queue' | 'queuePrefix' | 'queueWithout'> {
  const queue = named ?? access.onlyQueue ?? undefined
  if (queue !== undefined) {
    requireQueue(access, queue)
    return { queue: ownName(tenant, queue) }
  }
  // The store counts jobs, and knows nothing about tokens.
  if (!access.everywhere) throw unprocessable('queue is missing. Expected one of the queues of the token.')
  if (tenant !== '') return { queuePrefix: `${tenant}/` }
  return access.scopes.has('admin') ? {} : { queueWithout: '/' }
}
