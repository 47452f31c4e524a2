// The simulated fleet's file, seen from beside it: triggers write down every change of a job in the order of the commits.
import { mkdtempSync, existsSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync, type StatementSync } from 'node:sqlite'

/** One change of one job's row, in the order in which they were committed. */
export interface Change {
  readonly seq: number
  readonly id: string
  /** Null: the job arrived. */
  readonly from: number | null
  readonly to: number
  readonly attempt: number
  readonly queue: number
  readonly lane: number
  readonly worker: number | null
  readonly inputBefore: string | null
  readonly input: string
  readonly due: number | null
  /** When its run starts: at the change, or later if it was granted ahead. */
  readonly started: number | null
  /** Of an occurrence: when it was due, µs of the wall. */
  readonly occurs: number | null
}

export interface LaneRow {
  readonly id: number
  readonly queue: number
  readonly state: number
  readonly bucket: number | null
  readonly deputyOf: number | null
  readonly turn: number
  readonly buckets: readonly number[]
}

/** Where files of tests are kept: in memory where the system has such a place. */
export function testDirectory(): string {
  return mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'sluice-'))
}

const WATCH = `
  CREATE TABLE observer (at INTEGER PRIMARY KEY, seq INTEGER, id TEXT, was INTEGER, state INTEGER, attempt INTEGER,
    queue INTEGER, lane INTEGER, worker INTEGER, input_before TEXT, input TEXT, due INTEGER, occurs INTEGER, started INTEGER);
  CREATE TRIGGER observer_arrival AFTER INSERT ON jobs BEGIN
    INSERT INTO observer (seq, id, was, state, attempt, queue, lane, worker, input_before, input, due, occurs, started)
    VALUES (NEW.seq, NEW.id, NULL, NEW.state, NEW.attempt, NEW.queue, NEW.lane, NULL, NULL, NEW.input, NEW.due, NEW.occurs, NEW.started); END;
  CREATE TRIGGER observer_change AFTER UPDATE ON jobs WHEN OLD.state <> 2 OR NEW.state <> 2 BEGIN
    INSERT INTO observer (seq, id, was, state, attempt, queue, lane, worker, input_before, input, due, occurs, started)
    VALUES (NEW.seq, NEW.id, OLD.state, NEW.state, NEW.attempt, NEW.queue, NEW.lane, NEW.worker, OLD.input, NEW.input, NEW.due, NEW.occurs, NEW.started); END;`

/** A connection of the simulator's own; it only reads, once the triggers are set. */
export class WatchedFile {
  readonly path: string
  readonly #directory: string
  #db: DatabaseSync | null = null
  readonly #statements = new Map<string, StatementSync>()
  #seen = 0

  constructor() {
    this.#directory = testDirectory()
    this.path = join(this.#directory, 'fleet.db')
  }

  /** Once an engine has made the tables. */
  watch(): void {
    this.#db = new DatabaseSync(this.path)
    this.#db.exec(WATCH)
  }

  /** The changes since the last call. */
  changes(): Change[] {
    const rows = this.#all(
      'SELECT at, seq, id, was, state, attempt, queue, lane, worker, input_before, input, due, occurs, started FROM observer WHERE at > ? ORDER BY at',
      this.#seen,
    )
    this.#seen = Number(rows.at(-1)?.[0] ?? this.#seen)
    return rows.map((row) => {
      const [, seq, id, from, to, attempt, queue, lane, worker, inputBefore, input, due, occurs, started] = row as [
        number,
        number,
        string,
        number | null,
        number,
        number,
        number,
        number,
        number | null,
        string | null,
        string,
        number | null,
        number | null,
        number | null,
      ]
      return { seq, id, from, to, attempt, queue, lane, worker, inputBefore, input, due, occurs, started }
    })
  }

  queues(): Map<number, string> {
    return new Map(this.#all('SELECT id, name FROM queues') as [number, string][])
  }

  /** Queues that a registered worker serves. */
  liveQueues(nowUs: number): Set<string> {
    return new Set(
      this.#all('SELECT DISTINCT q.value FROM workers w, json_each(w.queues) q WHERE w.alive_until > ?', nowUs).map(
        ([queue]) => String(queue),
      ),
    )
  }

  buckets(): Map<number, { name: string; active: number; looked: boolean }> {
    return new Map(
      (
        this.#all('SELECT id, limit_name, key, active, state IS NOT NULL FROM buckets') as [
          number,
          string,
          string,
          number,
          number,
        ][]
      ).map(([id, limit, key, active, looked]) => [id, { name: `${limit}:${key}`, active, looked: looked === 1 }]),
    )
  }

  /** Where waiting jobs stand, by their sequence. */
  laneOfWaiting(): Map<number, number> {
    return new Map(this.#all('SELECT seq, lane FROM jobs WHERE state = 1') as [number, number][])
  }

  lanes(): LaneRow[] {
    return (
      this.#all('SELECT id, queue, state, bucket, deputy_of, turn, buckets FROM lanes') as [
        number,
        number,
        number,
        number | null,
        number | null,
        number,
        string,
      ][]
    ).map(([id, queue, state, bucket, deputyOf, turn, buckets]) => ({
      id,
      queue,
      state,
      bucket,
      deputyOf,
      turn,
      buckets: JSON.parse(buckets) as number[],
    }))
  }

  /** The number of a job; what else has changed is not looked at before the instant is over. */
  seqOf(id: string): number {
    return Number(this.#all('SELECT seq FROM jobs WHERE id = ?', id)[0]?.[0] ?? -1)
  }

  /** Where a schedule goes on, and whether what was missed of it waits for the end of a run; null: it is not stored. */
  schedule(name: string): { dueUs: number | null; holds: boolean } | null {
    const row = this.#all('SELECT next_at, catch_up_to IS NOT NULL FROM schedules WHERE name = ?', name)[0] as
      | [number | null, number]
      | undefined
    return row ? { dueUs: row[0], holds: row[1] === 1 } : null
  }

  close(): void {
    this.#db?.close()
    rmSync(this.#directory, { recursive: true, force: true })
  }

  #all(sql: string, ...values: (number | string)[]): unknown[][] {
    let statement = this.#statements.get(sql)
    if (!statement) {
      statement = this.#db!.prepare(sql)
      statement.setReturnArrays(true)
      this.#statements.set(sql, statement)
    }
    return statement.all(...values) as unknown as unknown[][]
  }
}
