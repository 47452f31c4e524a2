import type { Clock, Timer } from '../../base/clock.ts'
import { isFinal } from '../../base/errors.ts'
import type { Logger } from '../../base/logger.ts'
import type { Trouble } from '../../base/trouble.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import { LINES_AT_MOST, LOG_LEVELS, logLine, type LogLevel } from '../../jobs/job-log.ts'
import type { JobNote } from '../../store/contract/job-notes.ts'
import type { Store } from '../../store/contract/store.ts'

type Noted = Pick<GrantedJob, 'id' | 'attempt'>

/** Lines are written so long after the first of them. */
const WRITE_AFTER_MS = 250
const AGAIN_AFTER_MS = 2000
/** Runs whose notes wait for a store in trouble; those of the oldest are given up. */
const RUNS_AT_MOST = 5000
const WRITTEN_AT_ONCE = 500
const A_WRITE = 'the write of logs and progress'

/** The parts of kept notes. */
export interface KeptNotesOptions {
  readonly store: Store
  readonly clock: Clock
  readonly trouble: Trouble
  /** The least urgent level that is kept; null: no line is. */
  readonly keepLogs: LogLevel | null
}

/** Keeps the lines and the progress of runs with their jobs: written in batches, never in the transaction of a claim. */
export class KeptNotes {
  readonly #options: KeptNotesOptions
  #waiting = new Map<
    string,
    { id: string; attempt: number; lines: JobNote['lines'][number][]; progress: string | null }
  >()
  #timer: Timer | null = null
  #writing: Promise<void> | null = null

  constructor(options: KeptNotesOptions) {
    this.#options = options
  }

  /** Keeps how far a run has come; the last value counts. */
  progress(job: Noted, fraction: number): void {
    this.#of(job).progress = JSON.stringify(fraction)
  }

  /** A logger that also keeps its lines. All else of the given one stays as it is. */
  logger(logger: Logger, job: Noted): Logger {
    const { keepLogs, clock } = this.#options
    if (keepLogs === null) return logger
    const kept = LOG_LEVELS.slice(LOG_LEVELS.indexOf(keepLogs))
    const own = new Map<unknown, unknown>(
      kept.map((level) => [
        level,
        (given: object | string, ...more: unknown[]): void => {
          const { lines } = this.#of(job)
          const at = { atMs: clock.now(), level, attempt: job.attempt }
          lines.push(logLine(at, given, typeof more[0] === 'string' ? more[0] : ''))
          if (lines.length > LINES_AT_MOST) lines.shift()
          ;(logger[level] as (...args: unknown[]) => void)(given, ...more)
        },
      ]),
    )
    return new Proxy(logger, {
      get(target, name) {
        const tee = own.get(name)
        if (tee) return tee
        const value: unknown = Reflect.get(target, name, target)
        // Methods of a class with private fields need their own object.
        return typeof value === 'function' ? (value.bind(target) as unknown) : value
      },
    })
  }

  /** Writes all that waits. It never rejects: notes are not worth the failure of what they tell about. */
  async flush(): Promise<void> {
    this.#timer?.cancel()
    this.#timer = null
    this.#writing ??= this.#write().finally(() => (this.#writing = null))
    await this.#writing
  }

  #of({ id, attempt }: Noted): { lines: JobNote['lines'][number][]; progress: string | null } {
    const key = `${id} ${attempt}`
    let note = this.#waiting.get(key)
    if (!note) {
      note = { id, attempt, lines: [], progress: null }
      this.#waiting.set(key, note)
      const [oldest] = this.#waiting.keys()
      if (this.#waiting.size > RUNS_AT_MOST && oldest !== undefined) this.#waiting.delete(oldest)
    }
    this.#arm(WRITE_AFTER_MS)
    return note
  }

  #arm(afterMs: number): void {
    if (this.#timer) return
    this.#timer = this.#options.clock.setTimer(() => void this.flush(), afterMs)
    this.#timer.unref?.()
  }

  async #write(): Promise<void> {
    const { store, trouble } = this.#options
    while (this.#waiting.size > 0) {
      const batch = [...this.#waiting].slice(0, WRITTEN_AT_ONCE)
      for (const [key] of batch) this.#waiting.delete(key)
      try {
        await store.addNotes(batch.map(([, note]) => note))
        trouble.over(A_WRITE)
      } catch (error) {
        trouble.failed(A_WRITE, error)
        if (isFinal(error)) return this.#waiting.clear()
        // Newer notes of the same run follow its older ones.
        const newer = this.#waiting
        this.#waiting = new Map(batch)
        for (const [key, note] of newer) {
          const older = this.#waiting.get(key)
          if (older) {
            older.lines = [...older.lines, ...note.lines].slice(-LINES_AT_MOST)
            older.progress = note.progress ?? older.progress
          } else this.#waiting.set(key, note)
        }
        return this.#arm(AGAIN_AFTER_MS)
      }
    }
  }
}
