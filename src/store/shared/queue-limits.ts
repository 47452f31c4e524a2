import { parsed } from './set-aside.ts'
import type { BucketUse, DeclaredQueue } from '../contract/store.ts'

/** A stored declaration of a queue's own limits: JSON text, and its version; null: no engine has declared any. */
export type StoredDeclaration = readonly [limits: string | null, version: number | null]

/** A queue with limits of its own: those declared by code, as JSON text, and the one set by an operator. */
export type LimitedQueue = readonly [queue: string, limits: string | null, given: string | null]

/** The queues with limits of their own. */
export const LIMITED =
  "SELECT name, limits, limit_name FROM sluice.queues WHERE limit_name IS NOT NULL OR limits <> '[]'"

/** The stored text of a queue's limits. */
export function textOf({ uses }: DeclaredQueue): string {
  return JSON.stringify(uses)
}

/** Whether a declaration replaces the stored one: it has a higher version, or other content at the same version. */
export function replaces(declared: DeclaredQueue, [limits, version]: StoredDeclaration): boolean {
  if (limits === null || version === null || declared.version > version) return true
  return declared.version === version && textOf(declared) !== limits
}

/** Whether a declaration changes the needs of the queue's starts. */
export function changesStarts(declared: DeclaredQueue, [limits]: StoredDeclaration): boolean {
  return textOf(declared) !== (limits ?? '[]')
}

/** The limits that code declared. */
export function usesIn(limits: string | null): readonly BucketUse[] {
  return limits === null ? [] : (JSON.parse(limits) as BucketUse[])
}

/** Whether the stored limits of a queue are readable. */
export function areLimits(text: string): boolean {
  const uses = parsed(text)
  return (
    Array.isArray(uses) &&
    uses.every((use: Partial<BucketUse> | null) => typeof use?.limit === 'string' && typeof use.key === 'string')
  )
}

/**
 * The replacement for unreadable limits: this process's declaration of the same version, or else a limit without a
 * definition. The queue then starts nothing until its code declares its limits again, since no budget may be exceeded
 * because of lost data.
 */
export function restoredLimits(declared: DeclaredQueue | undefined, version: number | null): string {
  if (declared && declared.version === version) return textOf(declared)
  return JSON.stringify([{ limit: 'the unreadable limits of this queue', key: '', weight: 1 }])
}

/** The buckets that every start of a queue needs. */
export function bucketsOfQueue(
  queues: readonly LimitedQueue[],
  queue: string,
): { readonly limit: string; readonly key: string }[] {
  return queues.flatMap(([name, text, given]) =>
    name === queue ? [...usesIn(text), ...(given === null ? [] : [{ limit: given, key: '' }])] : [],
  )
}

/**
 * Whether starts of a queue need buckets that its jobs do not name, or a queue owns the limit of one of these buckets.
 */
export function heldAsWhole(
  queues: readonly LimitedQueue[],
  queue: string,
  buckets: readonly { readonly limit: string }[],
): boolean {
  return queues.some(([name, text, given]) => {
    const own = [...usesIn(text).map((use) => use.limit), ...(given === null ? [] : [given])]
    return own.some((limit) => name === queue || buckets.some((bucket) => bucket.limit === limit))
  })
}
