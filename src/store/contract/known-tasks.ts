import { hash } from 'node:crypto'

/** The tasks that a claimer lists: the store hands it no job of another task. */
export interface KnownTasks {
  readonly list: readonly string[]
  /** The same for every claimer that lists the same tasks. */
  readonly name: string
  has(task: string): boolean
}

/** Waiting jobs, seen by a claim, whose task no live worker lists. */
export interface UnknownKind {
  readonly queue: string
  readonly task: string
}

const CACHE = new WeakMap<readonly string[], KnownTasks>()
/** The number of task sets remembered for one lane. Callers over HTTP may name any tasks, so there is a bound. */
const PASSED_AT_MOST = 32

/** The task set of a request; null: it takes any task. */
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

/** Whether claimers with this task set have found nothing for them in a parked lane. */
export function hasPassed(passed: string, known: KnownTasks | null): boolean {
  return known !== null && passed.split(' ').includes(known.name)
}

/** The task sets that have found nothing in a lane, with this one added; null: the lane was not parked before. */
export function withPassed(passed: string | null, known: KnownTasks): string {
  const others = (passed?.split(' ') ?? []).filter((name) => name !== known.name)
  return [...others.slice(1 - PASSED_AT_MOST), known.name].sort().join(' ')
}
