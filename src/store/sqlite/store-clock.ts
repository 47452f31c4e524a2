import type { Clock } from '../../base/clock.ts'
import type { SqliteConnection } from '../../database/sqlite.ts'
import { isList } from '../shared/set-aside.ts'

/** Two readings of one instant: limits, leases and retries go by the steady one, `runAt` and expiry by the wall. */
export interface Instant {
  readonly nowUs: number
  readonly wallUs: number
}

const UNNAMED_BOOT_SLACK_US = 600_000_000

/**
 * The store's clock: the host's monotonic clock plus an offset kept in the file, fixed per boot. All processes that share the
 * file therefore read the same time, and a step of the wall clock moves no start. After a reboot the wall decides anew.
 */
export class StoreClock {
  readonly #clock: Clock
  #offsetUs = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Takes the offset of this boot from the file, or fixes it there; true when this is the first of a new boot. Runs inside a transaction. */
  anchor(db: SqliteConnection): boolean {
    const stored = db.get<[string]>(`SELECT value FROM store WHERE name = 'boot'`)?.[0]
    // What cannot be read is taken for another boot.
    const [boot, offset] = stored && isList(stored) ? (JSON.parse(stored) as [string, number]) : [null, 0]
    const fresh = Math.round(this.#clock.now() * 1000) - this.#clock.monotonicUs()
    // Where the system does not name its boots, a steady clock that is far off the wall has begun anew.
    const same = boot === this.#clock.bootId && (boot !== 'boot' || Math.abs(fresh - offset) < UNNAMED_BOOT_SLACK_US)
    this.#offsetUs = same ? offset : fresh
    if (same) return false
    db.run(
      `INSERT OR REPLACE INTO store (name, value) VALUES ('boot', ?)`,
      JSON.stringify([this.#clock.bootId, this.#offsetUs]),
    )
    return stored !== undefined
  }

  /** Which boot of the host this is. */
  get bootId(): string {
    return this.#clock.bootId
  }

  nowUs(): number {
    return this.#clock.monotonicUs() + this.#offsetUs
  }

  /** The wall clock minus this one, to a tenth of a second: the wall is read in ms, and a window's edge must not tremble. */
  wallOffsetUs(): number {
    const { nowUs, wallUs } = this.read()
    return Math.round((wallUs - nowUs) / 100_000) * 100_000
  }

  read(): Instant {
    return { nowUs: this.nowUs(), wallUs: Math.round(this.#clock.now() * 1000) }
  }
}
