import type { Clock, Timer } from '../../base/clock.ts'
import { storableText } from '../../base/text.ts'
import { fromJsonText } from '../../base/json-value.ts'
import type { Logger } from '../../base/logger.ts'
import { type BulkHooks, changeMany } from '../../engine/api/bulk.ts'
import type { Sluice } from '../../engine/engine.ts'
import type { JobMatch } from '../../jobs/job-filter.ts'
import type { Remote } from '../../remote/remote.ts'
import type { ChangedJob, JobChange } from '../../store/contract/change-jobs.ts'
import { ownName } from '../tenant.ts'
import type { HeldOpen } from '../held-open.ts'
import type { ChangeFeed } from './change-feed.ts'

/** A change of many jobs on record. The store keeps it until newer ones take its place. */
export interface BulkRecord {
  readonly id: string
  readonly action: string
  /** The filter as it was asked. */
  readonly filter: Readonly<Record<string, unknown>>
  readonly change: JobChange
  readonly match: JobMatch
  readonly state: 'running' | 'done' | 'stopped' | 'failed'
  /** Jobs that the change applied to when it was asked. */
  readonly total: number
  readonly changed: number
  readonly by: string
  /** The caller for whom it counts while it runs; absent: an earlier version has begun it. */
  readonly caller?: string
  readonly reason: string | null
  /** Null: of all tenants. */
  readonly tenant: string | null
  readonly createdMs: number
  /** The time of the last batch: a running change that is silent for long has lost its server. */
  readonly updatedMs: number
  readonly finishedMs: number | null
  readonly error: string | null
  /** The server at work on it. */
  readonly owner: string
}

const PREFIX = 'monitor.bulk.'
const STOP_PREFIX = 'monitor.bulk-stop.'
const KEPT = 100
const LOOK_EVERY_MS = 15_000
/** A change without a sign of life for this long is taken over. */
const LOST_AFTER_MS = 30_000
const BEAT_EVERY_MS = 5000

/** Makes changes of many jobs, batch by batch, and takes over those whose server has gone. */
export class BulkRunner {
  readonly #sluice: Sluice
  readonly #remote: Remote
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #owner: string
  readonly #running = new Map<string, AbortController>()
  readonly #changes: ChangeFeed
  readonly #heldOpen: HeldOpen
  #timer: Timer | null = null
  #closed = false

  constructor(parts: {
    readonly sluice: Sluice
    readonly remote: Remote
    readonly clock: Clock
    readonly logger: Logger
    readonly owner: string
    readonly changes: ChangeFeed
    readonly heldOpen: HeldOpen
  }) {
    this.#sluice = parts.sluice
    this.#remote = parts.remote
    this.#clock = parts.clock
    this.#logger = parts.logger
    this.#owner = parts.owner
    this.#changes = parts.changes
    this.#heldOpen = parts.heldOpen
    this.#lookLater()
  }

  /** The changes on record, newest first. */
  async list(): Promise<BulkRecord[]> {
    const rows = await (await this.#remote.store()).settings(PREFIX)
    return rows
      .flatMap(({ value }) => (fromJsonText(value, null) as BulkRecord | null) ?? [])
      .toSorted((a, b) => b.createdMs - a.createdMs || (a.id < b.id ? 1 : -1))
  }

  /** Puts a change on record and begins it. `ended` is called once this process works on it no more. */
  async start(
    given: Omit<BulkRecord, 'state' | 'changed' | 'updatedMs' | 'finishedMs' | 'error' | 'owner'>,
    ended: () => void,
  ): Promise<BulkRecord> {
    const record: BulkRecord = {
      ...given,
      state: 'running',
      changed: 0,
      updatedMs: given.createdMs,
      finishedMs: null,
      error: null,
      owner: this.#owner,
    }
    // A recorded change runs even if its caller never hears of it. So the record comes first.
    await this.#forgetOld()
    await this.#keep(record)
    this.#run(record, ended)
    return record
  }

  /** Ends a change after the batch at work, in any server. */
  async stop(id: string): Promise<void> {
    await (await this.#remote.store()).keepSetting(STOP_PREFIX + id, '1')
    this.#running.get(id)?.abort()
  }

  /** Leaves its changes to other servers, or to the next start. */
  close(): void {
    this.#closed = true
    this.#timer?.cancel()
    for (const controller of this.#running.values()) controller.abort()
  }

  #lookLater(): void {
    this.#timer = this.#clock.setTimer(() => {
      this.#takeOver()
        .catch(() => undefined)
        .finally(() => {
          if (!this.#closed) this.#lookLater()
        })
    }, LOOK_EVERY_MS)
    this.#timer.unref?.()
  }

  async #takeOver(): Promise<void> {
    const nowMs = this.#clock.now()
    for (const record of await this.list())
      if (record.state === 'running' && !this.#running.has(record.id) && nowMs - record.updatedMs >= LOST_AFTER_MS) {
        const taken = { ...record, owner: this.#owner, updatedMs: nowMs }
        await this.#keep(taken)
        this.#run(taken, this.#heldOpen.add(record.caller ?? '', 'bulks'))
      }
  }

  #run(record: BulkRecord, ended: () => void): void {
    const controller = new AbortController()
    this.#running.set(record.id, controller)
    void this.#work(record, controller.signal)
      .catch((error: unknown) =>
        this.#logger.error({ err: error, bulk: record.id }, 'a change of many jobs was interrupted'),
      )
      .finally(() => {
        this.#running.delete(record.id)
        ended()
      })
  }

  async #work(record: BulkRecord, signal: AbortSignal): Promise<void> {
    const store = await this.#remote.store()
    const { id, change, match } = record
    let now = record
    let writing: Promise<void> = Promise.resolve()
    const update = (fields: Partial<BulkRecord>): void => {
      now = { ...now, ...fields, updatedMs: this.#clock.now() }
      const written = now
      writing = writing.then(() => this.#keep(written)).catch(() => undefined)
    }
    const stopIfAsked = async (): Promise<void> => {
      const [asked] = await store.settings(STOP_PREFIX + id)
      if (asked) this.#running.get(id)?.abort()
    }
    const beatNow = (): void => {
      update({})
      stopIfAsked().catch(() => undefined)
      beat = this.#clock.setTimer(beatNow, BEAT_EVERY_MS)
    }
    let beat = this.#clock.setTimer(beatNow, BEAT_EVERY_MS)
    try {
      const { single, changed: report } = this.#sluice.jobs.changing(change)
      const hooks: BulkHooks = {
        store,
        single,
        changed: (jobs) => report(jobs).finally(() => this.#tell(jobs, change)),
      }
      const onProgress = ({ changed }: { readonly changed: number }): void => {
        update({ changed: record.changed + changed })
        stopIfAsked().catch(() => undefined)
      }
      const { changed, stopped } = await changeMany(hooks, change, match, { onProgress, signal })
      // A server that closes leaves the change to the next one.
      if (stopped && this.#closed) return
      update({ state: stopped ? 'stopped' : 'done', changed: record.changed + changed, finishedMs: this.#clock.now() })
    } catch (error) {
      if (this.#closed) return
      const words = error instanceof Error ? error.message : String(error)
      update({ state: 'failed', error: storableText(words).slice(0, 1000), finishedMs: this.#clock.now() })
    } finally {
      beat.cancel()
      await writing
      if (now.state !== 'running') await store.keepSetting(STOP_PREFIX + id, null).catch(() => undefined)
    }
  }

  /** Tells viewers whose jobs have changed: an event names few of these changes. */
  #tell(jobs: readonly ChangedJob[], change: JobChange): void {
    for (const { id, queue } of jobs) {
      this.#changes.note('jobs', id, queue)
      for (const each of [queue, change.kind === 'place' ? (change.queue ?? queue) : queue])
        this.#changes.note('queues', each, each)
    }
  }

  async #keep(record: BulkRecord): Promise<void> {
    await (await this.#remote.store()).keepSetting(PREFIX + record.id, JSON.stringify(record))
    const { id, tenant } = record
    this.#changes.note('bulk', id, tenant === null ? null : ownName(tenant, ''))
  }

  async #forgetOld(): Promise<void> {
    const store = await this.#remote.store()
    const ended = (await this.list()).filter(({ state }) => state !== 'running')
    // Each tenant has its own: many changes of one must not push out those of others.
    for (const own of Map.groupBy(ended, ({ tenant }) => tenant).values())
      for (const { id } of own.slice(KEPT)) await store.keepSetting(PREFIX + id, null)
  }
}
