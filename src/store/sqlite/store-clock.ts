import type { Clock } from '../../base/clock.ts'
import type { SqliteConnection } from '../../database/sqlite.ts'
import type { Instant } from '../../jobs/series.ts'
import { isList } from '../shared/set-aside.ts'
import { wallOffset } from '../shared/stored-bucket.ts'

const UNNAMED_BOOT_SLACK_US = 600_000_000

/**
 * The store's clock: the host's monotonic clock plus an offset in the file, fixed per boot. All processes that share
 * the file therefore read the same time, and a step of the wall clock moves no start. After a reboot the wall clock
 * sets a new offset.
 */
export class StoreClock {
  readonly #clock: Clock
  #offsetUs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /**
   * Reads the offset of this boot from the file, or sets it; true: this is the first process of a new boot. It runs
   * inside a transaction.
   */
  anchor(db: SqliteConnection): boolean {
    const stored = db.get<[string]>(`SELECT value FROM store WHERE name = 'boot'`)?.[0]
    // An unreadable offset counts as another boot.
    const [boot, offset] = stored && isList(stored) ? (JSON.parse(stored) as [string, number]) : [null, 0]
    const fresh = Math.round(this.#clock.now() * 1000) - this.#clock.monotonicUs()
    // On a system without boot ids, a steady clock far off the wall clock has restarted.
    const same = boot === this.#clock.bootId && (boot !== 'boot' || Math.abs(fresh - offset) < UNNAMED_BOOT_SLACK_US)
    this.#offsetUs = same ? offset : fresh
    if (same) return false
    db.run(
      `INSERT OR REPLACE INTO store (name, value) VALUES ('boot', ?)`,
      JSON.stringify([this.#clock.bootId, this.#offsetUs]),
    )
    return stored !== undefined
  }

  /** The id of the host's boot. */
  get bootId(): string {
    return this.#clock.bootId
  }

  nowUs(): number {
    return this.#clock.monotonicUs() + this.#offsetUs
  }

  wallOffsetUs(): number {
    const { nowUs, wallUs } = this.read()
    return wallOffset(nowUs, wallUs)
  }

  read(): Instant {
    return { nowUs: this.nowUs(), wallUs: Math.round(this.#clock.now() * 1000) }
  }
}
