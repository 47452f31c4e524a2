import { systemClock } from '../../base/clock.ts'
import { systemRandom } from '../../base/random.ts'
import { refund } from '../../policy/limits/bucket.ts'
import type { Timeline } from '../../policy/limits/timeline.ts'
import type { BucketName, UnitRequest } from '../contract/limiter.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { pauseAfter } from '../../base/persist.ts'
import { type Entries, pause, UnknownFate } from './kv.ts'
import { lastChangeUs } from '../ledger/value-bucket.ts'
import { NatsBucket } from './nats-bucket.ts'
import type { NatsPolicies } from './policies.ts'

/** How often a step is made again, since another writer was first. */
const TRIES = 200
/** A step whose caller can come back is made for so long. */
const PATIENCE_US = 150_000
const FIRST_PAUSE_MS = 50

/** The buckets of a step. */
export interface Stand extends Ledger {
  bucket(limit: string, key: string): NatsBucket | null
  /** Writes nothing. */
  leave(): void
}

/** The parts of the steps. */
export interface StepOptions {
  readonly nowUs: () => Promise<number>
  readonly wrote: (key: string, revision: number, bucket: NatsBucket) => void
}

/** Steps over several entries. Each entry is an update of its own; a lost race takes the others back. */
export class Steps {
  readonly #entries: Entries
  readonly #policies: NatsPolicies
  readonly #options: StepOptions

  constructor(entries: Entries, policies: NatsPolicies, options: StepOptions) {
    this.#entries = entries
    this.#policies = policies
    this.#options = options
  }

  /** The entry of a bucket. */
  keyOf({ limit, key }: BucketName): string {
    return `b.${encoded(limit)}.${encoded(key)}`
  }

  /**
   * Reads buckets, lets `work` decide, and writes. It begins again if another writer was first.
   * @param undo takes back in one bucket the units of what `work` decided; `isLost`: nothing of it stands. Otherwise the
   * caller may have asked again, under the same permits. Too few units may start after it, never too many
   * @param busy the answer if others are first for too long; absent: an error
   */
  async run<T>(
    names: readonly BucketName[],
    work: (stand: Stand) => T,
    undo?: (bucket: NatsBucket, decided: T, isLost: boolean) => unknown,
    busy?: (name: BucketName) => T,
  ): Promise<T> {
    const beganUs = systemClock.monotonicUs()
    for (let tries = 0; tries < TRIES; tries++) {
      if (tries > 0) await pause(systemRandom.next() * Math.min(tries, 8))
      const { nowUs, buckets } = await this.#read(names)
      const bucket = (limit: string, key: string): NatsBucket | null =>
        buckets.find((each) => each?.limit === limit && each.key === key) ?? null
      const leave = (): void => {
        for (const each of buckets) if (each) each.changed = false
      }
      const timeline = (limit: string): Timeline => this.#policies.timeline(limit)
      const decided = work({ nowUs, bucket, timeline, leave })
      const changed = buckets.filter((each) => each?.changed === true) as NatsBucket[]
      const lost = await this.#write(changed, undo && ((each, isLost) => undo(each, decided, isLost)))
      if (!lost) return decided
      if (busy && systemClock.monotonicUs() - beganUs > PATIENCE_US) return busy(lost)
    }
    throw new Error('other callers change these buckets all the time')
  }

  async #read(names: readonly BucketName[]): Promise<{ nowUs: number; buckets: (NatsBucket | null)[] }> {
    const [given, entries] = await Promise.all([
      this.#options.nowUs(),
      Promise.all(names.map((name) => this.#entries.get(this.keyOf(name)))),
      this.#policies.read(),
    ])
    // Another process may know the server's clock better: time never goes back in a bucket.
    const nowUs = Math.max(given, ...entries.map(({ text }) => lastChangeUs(text)))
    await this.#policies.endOverdue(
      names.map(({ limit }) => limit),
      nowUs,
    )
    const buckets = names.map((name, i) => {
      const timeline = this.#policies.timeline(name.limit)
      const { text, revision } = entries[i] ?? { text: '', revision: 0, writing: '' }
      return timeline.definition ? new NatsBucket(name, text, revision, timeline, nowUs) : null
    })
    return { nowUs, buckets }
  }

  /** Writes buckets one after the other; it returns the one that another writer has changed, having undone the others. */
  async #write(buckets: readonly NatsBucket[], undo: Undo = () => undefined): Promise<NatsBucket | null> {
    const written: NatsBucket[] = []
    for (const bucket of buckets) {
      const key = this.keyOf(bucket)
      const revision = await this.#entries.update(key, bucket.value, bucket.entry).catch((error: unknown) => {
        void this.#undoLater(written, (each) => undo(each, false))
        throw error
      })
      if (revision === 0) {
        await this.#undo(written, (each) => undo(each, true))
        return bucket
      }
      this.#options.wrote(key, revision, bucket)
      written.push(bucket)
    }
    return null
  }

  async #undo(written: readonly NatsBucket[], undo: (bucket: NatsBucket) => unknown): Promise<void> {
    for (const [i, bucket] of written.entries())
      await this.#undoIn(bucket, undo).catch((error: unknown) => {
        void this.#undoLater(written.slice(error instanceof UnknownFate ? i + 1 : i), undo)
        throw error
      })
  }

  /** Takes buckets back for as long as what was decided counts there. */
  async #undoLater(written: readonly NatsBucket[], undo: (bucket: NatsBucket) => unknown): Promise<void> {
    for (const bucket of written) {
      const untilUs = systemClock.monotonicUs() + bucket.countsForUs
      for (let failures = 0; systemClock.monotonicUs() < untilUs;) {
        const error = await this.#undoIn(bucket, undo).then(
          () => null,
          (thrown: unknown) => thrown,
        )
        if (error === null || error instanceof UnknownFate) break
        await pause(pauseAfter(++failures, FIRST_PAUSE_MS))
      }
    }
  }

  #undoIn({ limit, key }: BucketName, undo: (bucket: NatsBucket) => unknown): Promise<void> {
    return this.run([{ limit, key }], (stand) => {
      const found = stand.bucket(limit, key)
      if (!found) return
      undo(found)
      found.changed = true
    })
  }
}

/** Takes back in one bucket what was decided. */
type Undo = (bucket: NatsBucket, isLost: boolean) => unknown

/** Gives back in one bucket the units of a request that were taken at `atUs`. */
export function refundIn(bucket: NatsBucket, { uses }: Pick<UnitRequest, 'uses'>, atUs: number): void {
  const use = uses.find(({ limit, key }) => limit === bucket.limit && key === bucket.key)
  if (use) refund(bucket.policy, bucket.state, bucket.state.atUs, use.weight, atUs)
}

/** Text as one token of a subject. */
function encoded(text: string): string {
  return text === '' ? '_' : `_${Buffer.from(text).toString('base64url')}`
}
