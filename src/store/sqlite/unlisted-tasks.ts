import { headOf } from '../shared/lanes-read.ts'
import type { Head, UnlistedJob } from '../../policy/admission/lane.ts'
import type { KnownTasks, UnknownKind } from '../contract/known-tasks.ts'
import { STATE } from '../shared/state.ts'
import { type Context, queueName } from './context.ts'
import { sharedQueue } from './own.ts'
import { readAhead } from './read-ahead.ts'
import { readNow } from '../shared/reading.ts'
import { knowsTask, liveWorkers, type LiveWorker } from '../shared/workers.ts'
import { sharedSql } from './portable-sql.ts'

/** The columns of a waiting job. */
export type HeadRow = [
  seq: number,
  priority: number,
  given: number,
  weights: string | null,
  attempt: number,
  since: number,
  task: string,
  latest: number | null,
]

/**
 * Claims search waiting jobs by task only if workers list different tasks. A store without such workers needs no index
 * for it.
 */
const BY_TASK = `CREATE INDEX IF NOT EXISTS jobs_tasks ON jobs (lane, task, priority DESC, seq) WHERE state = ${STATE.available}`
const COLUMNS = 'j.seq, j.priority, coalesce(j.asked, j.priority), j.weights, j.attempt, j.since, j.task, j.due'

/** A waiting job for a decision. */
export function toHead([seq, priority, given, weights, attempt, sinceUs, , latestUs]: HeadRow): Head {
  return headOf(seq, priority, given, weights, attempt, sinceUs, latestUs)
}

interface Seen {
  readonly queue: number
  readonly task: string
  readonly head: Head
}

/**
 * The unlisted jobs of a claim's lanes. Usually all first jobs of a lane are listed, and nothing more is read.
 * Otherwise the claim reads the first job of each task, behind any number of unlisted jobs.
 */
export class UnlistedTasks {
  readonly #context: Context
  readonly #known: KnownTasks | null
  readonly #worker: number
  readonly #nowUs: number
  readonly #seen = new Map<number, Seen>()
  #live: readonly LiveWorker[] | null = null
  #byTask = false

  constructor(context: Context, known: KnownTasks | null, worker: number, nowUs: number) {
    this.#context = context
    this.#known = known
    this.#worker = worker
    this.#nowUs = nowUs
  }

  /**
   * Those of a lane's first jobs that may start. @param rows the lane's first jobs @param again reads them without
   * unlisted jobs
   */
  known(lane: number, queue: number, rows: HeadRow[], skip: number, count: number): HeadRow[] {
    if (!this.#known) return rows
    return this.note(lane, queue, rows) ? this.read(lane, skip, count) : rows
  }

  /** True: the waiting jobs of a lane include unlisted ones. */
  note(lane: number, queue: number, rows: readonly HeadRow[]): boolean {
    if (this.#seen.has(lane)) return true
    const unlisted = rows.find((row) => !this.lists(row))
    if (!unlisted) return false
    this.#seen.set(lane, { queue, task: unlisted[6], head: toHead(unlisted) })
    return true
  }

  /** Whether unlisted jobs were seen in a lane. */
  has(lane: number): boolean {
    return this.#seen.has(lane)
  }

  lists(row: HeadRow): boolean {
    return this.#known === null || this.#known.has(row[6])
  }

  /** The waiting jobs of a lane whose tasks are listed, in order, after `skip` of them. */
  read(lane: number, skip: number, count: number): HeadRow[] {
    // The claim's transaction creates the index. If it rolls back, the next claim creates the index.
    if (!this.#byTask) this.#context.db.run(BY_TASK)
    this.#byTask = true
    return this.#context.db
      .all<HeadRow>(
        `SELECT ${COLUMNS} FROM json_each(?) e CROSS JOIN jobs j ON j.seq IN
         (SELECT seq FROM jobs h WHERE h.lane = ? AND h.state = ${STATE.available} AND h.task = e.value ORDER BY h.priority DESC, h.seq LIMIT ${readAhead(skip + count)})`,
        JSON.stringify(this.#known?.list ?? []),
        lane,
      )
      .sort((a, b) => b[1] - a[1] || a[0] - b[0])
      .slice(skip, skip + count)
  }

  /** The first unlisted job of a lane; null: none was seen. */
  of(lane: number): UnlistedJob | null {
    const seen = this.#seen.get(lane)
    return seen ? { head: seen.head, known: this.#isKnown(seen) } : null
  }

  /** The kinds of unlisted jobs that no live worker lists. */
  unknown(): UnknownKind[] {
    const kinds = new Map<string, UnknownKind>()
    for (const seen of this.#seen.values()) {
      if (this.#isKnown(seen)) continue
      const queue = queueName(this.#context, sharedQueue(seen.queue))
      kinds.set(`${queue} ${seen.task}`, { queue, task: seen.task })
    }
    return [...kinds.values()]
  }

  #isKnown({ queue, task }: Seen): boolean {
    this.#live ??= readNow(liveWorkers({ db: sharedSql(this.#context.db) }, this.#nowUs, this.#worker))
    return knowsTask(this.#live, queueName(this.#context, sharedQueue(queue)), task)
  }
}
