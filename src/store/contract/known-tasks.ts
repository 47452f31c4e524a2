import { hash } from 'node:crypto'

/** The tasks that a claimer lists: it is given no job of another one. */
export interface KnownTasks {
  readonly list: readonly string[]
  /** The same for every claimer that lists the same tasks. */
  readonly name: string
  has(task: string): boolean
}

/** Jobs of a task that no live worker lists, as a claim met them. */
export interface UnknownKind {
  readonly queue: string
  readonly task: string
}

const CACHE = new WeakMap<readonly string[], KnownTasks>()
/** Of sets of tasks that are remembered with one lane; callers over HTTP name any. */
const PASSED_AT_MOST = 32

/** What a request says of its tasks; null: it takes any. */
export function knownTasks(tasks: readonly string[] | undefined): KnownTasks | null {
  if (tasks === undefined) return null
  const cached = CACHE.get(tasks)
  if (cached) return cached
  const set = new Set(tasks)
  const list = [...set].sort()
  const known = { list, name: hash('sha256', JSON.stringify(list), 'base64url').slice(0, 12), has: set.has.bind(set) }
  CACHE.set(tasks, known)
  return known
}

/** Whether claimers of this set of tasks have found nothing for them in a parked lane. */
export function hasPassed(passed: string, known: KnownTasks | null): boolean {
  return known !== null && passed.split(' ').includes(known.name)
}

/** The sets of tasks that have found nothing in a lane, with this one among them; null: it was not parked before. */
export function withPassed(passed: string | null, known: KnownTasks): string {
  const others = (passed?.split(' ') ?? []).filter((name) => name !== known.name)
  return [...others.slice(1 - PASSED_AT_MOST), known.name].sort().join(' ')
}
