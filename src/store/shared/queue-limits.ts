import { parsed } from './set-aside.ts'
import type { BucketUse, DeclaredQueue } from '../contract/store.ts'

/** A queue's own limits as a store keeps them: JSON text, and the version they were declared with; null: nobody has declared any. */
export type StoredDeclaration = readonly [limits: string | null, version: number | null]

/** A queue with limits of its own: those that code declared, as JSON text, and the one that an operator gave it. */
export type LimitedQueue = readonly [queue: string, limits: string | null, given: string | null]

/** What a store keeps of a queue's limits. */
export function textOf({ uses }: DeclaredQueue): string {
  return JSON.stringify(uses)
}

/** Whether a declaration replaces what is stored: a higher version does, and at the same version other content, since it comes later. */
export function replaces(declared: DeclaredQueue, [limits, version]: StoredDeclaration): boolean {
  if (limits === null || version === null || declared.version > version) return true
  return declared.version === version && textOf(declared) !== limits
}

/** Whether a declaration changes what starts of the queue need. */
export function changesStarts(declared: DeclaredQueue, [limits]: StoredDeclaration): boolean {
  return textOf(declared) !== (limits ?? '[]')
}

/** The limits that code declared. */
export function usesIn(limits: string | null): readonly BucketUse[] {
  return limits === null ? [] : (JSON.parse(limits) as BucketUse[])
}

/** Whether what is kept of a queue's limits can be read. */
export function areLimits(text: string): boolean {
  const uses = parsed(text)
  return (
    Array.isArray(uses) &&
    uses.every((use: Partial<BucketUse> | null) => typeof use?.limit === 'string' && typeof use.key === 'string')
  )
}

/**
 * What takes the place of limits that cannot be read: what this process has declared with the same version, else a limit that nobody defines. Nothing
 * starts of the queue then until its code declares its limits again: no budget may be exceeded because of what is not known.
 */
export function restoredLimits(declared: DeclaredQueue | undefined, version: number | null): string {
  if (declared && declared.version === version) return textOf(declared)
  return JSON.stringify([{ limit: 'the unreadable limits of this queue', key: '', weight: 1 }])
}

/** Whether starts of a queue need buckets that its jobs do not name, or the limit of one of these buckets is some queue's own. */
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
