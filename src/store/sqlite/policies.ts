import type { SqliteConnection } from '../../database/sqlite.ts'
import { adopt, type BucketState, newBucket, reclock } from '../../policy/bucket.ts'
import type { LimitPolicy } from '../../policy/limit.ts'

interface Revision {
  readonly revision: number
  readonly policy: LimitPolicy
  readonly version: number
  readonly sinceUs: number
}

/**
 * The declared limits, each with its history: a bucket remembers the revision that its state was written under, and is carried
 * over to the current one when it is next loaded, as of the moment of each change.
 */
export class Policies {
  readonly #db: SqliteConnection
  #limits = new Map<string, readonly Revision[]>()
  #generation = -1

  constructor(db: SqliteConnection) {
    this.#db = db
  }

  /** Reads the limits again if another process, or a transaction that was rolled back, has changed them. */
  refresh(): void {
    const generation = this.#db.get<[number]>(`SELECT value FROM store WHERE name = 'limits'`)?.[0] ?? 0
    if (generation === this.#generation) return
    this.#generation = generation
    this.#limits = new Map()
    const rows = this.#db.all<[string, number, string, number, number]>(
      'SELECT name, revision, policy, version, since FROM limits ORDER BY name, revision',
    )
    for (const [name, revision, policy, version, sinceUs] of rows)
      this.#limits.set(name, [
        ...(this.#limits.get(name) ?? []),
        { revision, policy: JSON.parse(policy) as LimitPolicy, version, sinceUs },
      ])
  }

  /** What was remembered may have been rolled back. */
  forget(): void {
    this.#generation = -1
  }

  current(name: string): Revision | null {
    return this.#limits.get(name)?.at(-1) ?? null
  }

  names(): string[] {
    return [...this.#limits.keys()]
  }

  /** Adds a revision; the first is number 1. */
  add(name: string, policy: LimitPolicy, version: number, nowUs: number): void {
    const revision = (this.current(name)?.revision ?? 0) + 1
    this.#db.run(
      'INSERT INTO limits (name, revision, policy, version, since) VALUES (?, ?, ?, ?, ?)',
      name,
      revision,
      JSON.stringify(policy),
      version,
      nowUs,
    )
    this.#db.run(`INSERT INTO store (name, value) VALUES ('limits', 1) ON CONFLICT DO UPDATE SET value = value + 1`)
    this.refresh()
  }

  /** A stored bucket state, as of now and under the limit's current policy; `stored` null: a new bucket. */
  carry(name: string, stored: BucketState | null, revision: number, nowUs: number): BucketState | null {
    const history = this.#limits.get(name)
    const last = history?.at(-1)
    if (!history || !last) return stored
    if (!stored) return newBucket(last.policy, nowUs)
    let state = stored
    let from = history.find((each) => each.revision === revision)
    for (const to of history) {
      if (!from || to.revision <= from.revision) continue
      state = adopt(from.policy, to.policy, state, Math.max(to.sinceUs, state.atUs))
      from = to
    }
    return nowUs < state.atUs ? reclock(last.policy, state, nowUs) : state
  }
}
