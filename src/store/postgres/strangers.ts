import type { Head, Stranger } from '../../policy/admission/lane.ts'
import type { UnknownKind } from '../contract/known-tasks.ts'
import { grouped, type HeadRow, type Look, NotRead, type Portion, toHead } from './read-set.ts'

interface Seen {
  readonly queue: string
  readonly task: string
  readonly head: Head
}

/**
 * The waiting jobs of a claim's lanes that are of tasks it does not list. Where the first jobs of a lane are all known, as they mostly
 * are, nothing more was read. Else the first of each listed task are: however many strangers stand before them.
 */
export class Strangers {
  readonly #strange: boolean
  readonly #workers: Look['workers']
  readonly #heads: ReadonlyMap<number, HeadRow<number>[]>
  readonly #line: ReadonlyMap<string, HeadRow<string>[]>
  readonly #seen = new Map<number | string, Seen>()

  constructor(look: Look, portion: Portion) {
    this.#strange = portion.strange
    this.#workers = look.workers
    this.#heads = grouped(look.knownHeads)
    this.#line = grouped(look.knownLine)
  }

  /** Some were met. */
  get any(): boolean {
    return this.#seen.size > 0
  }

  /** Those of a lane's first jobs that may start. @param count as many as were read of each task */
  ofLane(lane: number, queue: string, rows: HeadRow<number>[], count: number): HeadRow<number>[] {
    return this.note(lane, queue, rows) ? (this.#heads.get(lane) ?? []).slice(0, count) : rows
  }

  /** Those of a queue's first jobs without limits that may start. */
  ofLine(queue: string, rows: HeadRow<string>[], count: number): HeadRow<string>[] {
    return this.note(queue, queue, rows) ? (this.#line.get(queue) ?? []).slice(0, count) : rows
  }

  /** True: there are strangers among the waiting jobs of a lane. */
  note(place: number | string, queue: string, rows: readonly HeadRow<unknown>[]): boolean {
    if (this.#seen.has(place)) return true
    const stranger = rows.find(([, , , , , , , task]) => typeof task === 'string')
    if (!stranger) return false
    if (!this.#strange)
      throw new NotRead('jobs of the tasks that are listed', (portion) => ({ ...portion, strange: true }))
    this.#seen.set(place, { queue, task: stranger[7] as string, head: toHead(stranger) })
    return true
  }

  /** The first stranger of a lane; null: none was seen. */
  of(lane: number): Stranger | null {
    const seen = this.#seen.get(lane)
    return seen ? { head: seen.head, known: this.#isKnown(seen) } : null
  }

  /** The kinds of strangers that no live worker knows. */
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
