import type { Clock, Timer } from '../../base/clock.ts'
import type { Sluice } from '../../engine/engine.ts'
import type { SluiceEvents } from '../../engine/events/events.ts'
import type { Remote } from '../../remote/remote.ts'
import { ownName, splitName } from '../tenant.ts'

/** The kinds of things that change. */
export const TOPICS = ['jobs', 'limits', 'queues', 'flows', 'schedules', 'workers', 'bulk', 'audit'] as const
/** A kind of things that change. */
export type Topic = (typeof TOPICS)[number]

/** One message: the things that have changed since the one before. */
export interface ChangeMessage {
  readonly id: string
  readonly atMs: number
  /**
   * By topic: the names of what changed, each with the stored name of its owner, or null; `any`: it may be anything. The
   * empty name of a tenant stands for anything of that tenant.
   */
  readonly topics: ReadonlyMap<Topic, 'any' | ReadonlyMap<string, string | null>>
}

/** At most 4 messages a second. */
const COALESCE_MS = 250
/** Other processes may change what no notification tells. */
const LOOK_EVERY_MS = 1000
const KEPT = 2000
const NAMES_AT_MOST = 100
/** The feed listens on for this long after the last viewer has left, so that one who returns misses nothing. */
const LINGER_MS = 300_000

const JOB_EVENTS = [
  'job.enqueued',
  'job.started',
  'job.progress',
  'job.completed',
  'job.retrying',
  'job.snoozed',
  'job.discarded',
  'job.cancelled',
  'job.recovered',
] as const satisfies readonly (keyof SluiceEvents)[]
const LIMIT_EVENTS = [
  'rate_limit.exceeded',
  'rate_limit.throttled',
  'rate_limit.released',
  'rate_limit.dropped',
  'rate_limit.dynamic_adjusted',
  'rate_limit.unknown',
] as const satisfies readonly (keyof SluiceEvents)[]
const SCHEDULE_EVENTS = [
  'schedule.fired',
  'schedule.skipped',
  'schedule.ended',
] as const satisfies readonly (keyof SluiceEvents)[]
const FLOW_EVENTS = [
  'flow.started',
  'flow.completed',
  'flow.failed',
  'flow.cancelled',
  'flow.parked',
  'flow.woken',
  'step.started',
  'step.completed',
  'step.failed',
] as const satisfies readonly (keyof SluiceEvents)[]

/**
 * Tells viewers what has changed: by the events of this process, by the store's notifications of others, and by a look
 * each second while other processes run. It listens only while there are viewers, and some time longer.
 */
export class ChangeFeed {
  readonly #sluice: Sluice
  readonly #remote: Remote
  readonly #clock: Clock
  readonly #listeners = new Set<(message: ChangeMessage) => void>()
  readonly #kept: ChangeMessage[] = []
  readonly #born: string
  #seq = 0
  #topics = new Map<Topic, 'any' | Map<string, string | null>>()
  #flush: Timer | null = null
  #look: Timer | null = null
  #linger: Timer | null = null
  #stops: (() => void)[] | null = null
  /** A job has started in this process. */
  #runsJobs = false
  #closed = false

  constructor({ sluice, remote, clock }: { sluice: Sluice; remote: Remote; clock: Clock }) {
    this.#sluice = sluice
    this.#remote = remote
    this.#clock = clock
    this.#born = Math.floor(clock.now()).toString(36)
  }

  /** The id of the newest message. */
  get latest(): string {
    return `${this.#born}-${this.#seq}`
  }

  /** Calls `listener` at every message. Returns a function that stops it. */
  listen(listener: (message: ChangeMessage) => void): () => void {
    this.#linger?.cancel()
    this.#listeners.add(listener)
    if (!this.#stops) this.#begin()
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return
      this.#linger = this.#clock.setTimer(() => this.#end(), LINGER_MS)
      this.#linger.unref?.()
    }
  }

  /** The messages behind an id; null: it is not known here, or too old. */
  after(id: string): readonly ChangeMessage[] | null {
    const [, born, seq] = /^([0-9a-z]{1,20})-(\d{1,15})$/.exec(id) ?? []
    const place = Number(seq)
    if (!this.#stops || born !== this.#born || !Number.isSafeInteger(place) || place > this.#seq) return null
    const first = this.#seq - this.#kept.length
    return place < first ? null : this.#kept.slice(place - first)
  }

  /** Notes a change. @param name absent: it may be anything of the topic. @param owner the stored name of its owner */
  note(topic: Topic, name?: string, owner: string | null = null): void {
    if (!this.#stops || this.#closed) return
    const known = this.#topics.get(topic)
    if (name === undefined) this.#topics.set(topic, 'any')
    else if (known === undefined) this.#topics.set(topic, new Map([[name, owner]]))
    else if (known !== 'any' && known.set(name, owner).size > NAMES_AT_MOST) this.#topics.set(topic, tenantsOf(known))
    this.#flush ??= this.#clock.setTimer(() => this.#send(), COALESCE_MS)
    this.#flush.unref?.()
  }

  /** Notes that anything of a tenant may have changed; empty: of any tenant. */
  noteAll(tenant = ''): void {
    const name = tenant === '' ? undefined : ownName(tenant, '')
    for (const topic of TOPICS) this.note(topic, name, name)
  }

  close(): void {
    this.#closed = true
    this.#end()
    this.#listeners.clear()
  }

  #begin(): void {
    if (this.#closed) return
    const { on } = this.#sluice
    this.#stops = [
      ...JOB_EVENTS.map((name) =>
        on(name, ({ id, queue }) => {
          this.#runsJobs ||= name === 'job.started'
          this.note('jobs', id, queue)
          this.note('queues', queue, queue)
        }),
      ),
      ...LIMIT_EVENTS.map((name) => on(name, ({ limit }) => this.note('limits', limit, limit))),
      ...SCHEDULE_EVENTS.map((name) => on(name, ({ schedule }) => this.note('schedules', schedule, schedule))),
      ...FLOW_EVENTS.map((name) => on(name, ({ id }) => this.note('flows', id))),
      on('worker.started', () => this.note('workers')),
      on('worker.stopped', () => this.note('workers')),
    ]
    this.#lookLater()
    this.#watch().catch(() => undefined)
  }

  async #watch(): Promise<void> {
    const store = await this.#remote.store()
    const stop = store.watch((_change, isOwn) => {
      // The events of this process have named what it has changed.
      if (isOwn) return
      this.note('jobs')
      this.note('queues')
      this.note('limits')
      this.note('flows')
    })
    if (this.#stops) this.#stops.push(stop)
    else stop()
  }

  #lookLater(): void {
    this.#look = this.#clock.setTimer(() => {
      this.#lookNow()
        .catch(() => undefined)
        .finally(() => {
          if (this.#stops) this.#lookLater()
        })
    }, LOOK_EVERY_MS)
    this.#look.unref?.()
  }

  /** SQLite tells every commit of other processes; PostgreSQL does not tell their starts. */
  async #lookNow(): Promise<void> {
    if (this.#listeners.size === 0) return
    const store = await this.#remote.store()
    if (store.backend === 'sqlite') return
    const engines = (await store.workers()).filter(({ alive, name }) => alive && name === null).length
    if (engines > (this.#runsJobs ? 1 : 0)) this.noteAll()
  }

  #end(): void {
    for (const stop of this.#stops ?? []) stop()
    this.#stops = null
    for (const timer of [this.#flush, this.#look, this.#linger]) timer?.cancel()
    this.#flush = this.#look = this.#linger = null
    this.#topics = new Map()
    this.#kept.length = 0
    // A viewer that returns later has missed changes that were not noted.
    this.#seq++
  }

  #send(): void {
    this.#flush = null
    const message = { id: `${this.#born}-${++this.#seq}`, atMs: this.#clock.now(), topics: this.#topics }
    this.#topics = new Map()
    this.#kept.push(message)
    if (this.#kept.length > KEPT) this.#kept.shift()
    for (const listener of this.#listeners) listener(message)
  }
}

/** Many names in fewer words: anything of each of their tenants. */
function tenantsOf(names: ReadonlyMap<string, string | null>): 'any' | Map<string, string | null> {
  const tenants = new Map<string, string | null>()
  for (const owner of names.values()) {
    if (owner === null) return 'any'
    const tenant = ownName(splitName(owner).tenant, '')
    tenants.set(tenant, tenant)
  }
  return tenants.size < NAMES_AT_MOST ? tenants : 'any'
}
