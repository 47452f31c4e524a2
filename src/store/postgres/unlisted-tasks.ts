import type { Head, UnlistedJob } from '../../policy/admission/lane.ts'
import type { UnknownKind } from '../contract/known-tasks.ts'
import { grouped, type HeadRow, type ReadSet, ReadMiss, type ReadPlan, toHead } from './read-set.ts'

interface Seen {
  readonly queue: string
  readonly task: string
  readonly head: Head
}

/**
 * The unlisted jobs of a claim's lanes. Usually all first jobs of a lane are listed, and nothing more was read.
 * Otherwise the claim reads the first job of each listed task, behind any number of unlisted jobs.
 */
export class UnlistedTasks {
  readonly #expected: boolean
  readonly #workers: ReadSet['workers']
  readonly #heads: ReadonlyMap<number, HeadRow<number>[]>
  readonly #line: ReadonlyMap<string, HeadRow<string>[]>
  readonly #seen = new Map<number | string, Seen>()

  constructor(read: ReadSet, plan: ReadPlan) {
    this.#expected = plan.expectsUnlisted
    this.#workers = read.workers
    this.#heads = grouped(read.knownHeads)
    this.#line = grouped(read.knownLine)
  }

  /** Whether any were seen. */
  get any(): boolean {
    return this.#seen.size > 0
  }

  /** Those of a lane's first jobs that may start. @param count the number of jobs read of each task */
  ofLane(lane: number, queue: string, rows: HeadRow<number>[], count: number): HeadRow<number>[] {
    return this.note(lane, queue, rows) ? (this.#heads.get(lane) ?? []).slice(0, count) : rows
  }

  /** Those of a queue's first jobs without limits that may start. */
  ofLine(queue: string, rows: HeadRow<string>[], count: number): HeadRow<string>[] {
    return this.note(queue, queue, rows) ? (this.#line.get(queue) ?? []).slice(0, count) : rows
  }

  /** True: the waiting jobs of a lane include unlisted ones. */
  note(place: number | string, queue: string, rows: readonly HeadRow<unknown>[]): boolean {
    if (this.#seen.has(place)) return true
    const unlisted = rows.find(([, , , , , , , task]) => typeof task === 'string')
    if (!unlisted) return false
    if (!this.#expected)
      throw new ReadMiss('jobs of the tasks that are listed', (plan) => ({ ...plan, expectsUnlisted: true }))
    this.#seen.set(place, { queue, task: unlisted[7] as string, head: toHead(unlisted) })
    return true
  }

  /** The first unlisted job of a lane; null: none was seen. */
  of(lane: number): UnlistedJob | null {
    const seen = this.#seen.get(lane)
    return seen ? { head: seen.head, known: this.#isKnown(seen) } : null
  }

  /** The kinds of unlisted jobs that no live worker lists. */
  unknown(): UnknownKind[] {
    const kinds = new Map<string, UnknownKind>()
    for (const seen of this.#seen.values())
      if (!this.#isKnown(seen)) kinds.set(`${seen.queue} ${seen.task}`, { queue: seen.queue, task: seen.task })
    return [...kinds.values()]
  }

  #isKnown({ queue, task }: Seen): boolean {
    return (this.#workers ?? []).some(
      ([queues, tasks]) => queues.includes(queue) && (tasks === null || tasks.includes(task)),
    )
  }
}
