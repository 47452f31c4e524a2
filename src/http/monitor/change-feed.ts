import type { Clock, Timer } from '../../base/clock.ts'
import { internalsOf } from '../../engine/internals.ts'
import type { Sluice } from '../../engine/engine.ts'
import type { SluiceEvents } from '../../engine/events/events.ts'
import type { Remote } from '../../remote/remote.ts'
import { splitName } from '../tenant.ts'
import { ChangeChannel, type ChangeMessage, type Topic, TOPICS } from './change-channel.ts'
import { FlowOwners } from './flow-owners.ts'

/** Other processes may change what no notification tells. */
const LOOK_EVERY_MS = 1000
/** A channel goes on for this long after its last viewer has left, so that one who returns misses nothing. */
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
 * each second while other processes run. Each tenant has a channel of its own. The feed listens only while some channel
 * has viewers, and some time longer.
 */
export class ChangeFeed {
  readonly #sluice: Sluice
  readonly #remote: Remote
  readonly #clock: Clock
  readonly #owners: FlowOwners
  /** By tenant; null: of all tenants. */
  readonly #channels = new Map<string | null, ChangeChannel>()
  readonly #lingers = new Map<ChangeChannel, Timer>()
  #look: Timer | null = null
  #stops: (() => void)[] | null = null
  /**
   * Another process has written since the feed began. It stays so: PostgreSQL tells no starts, and a stream that paused
   * with that process would show its tenant when others are busy.
   */
  #othersWrite = false
  /** The store has not heard others for a while, so the next look tells everyone. */
  #mayHaveMissed = false
  #closed = false

  constructor({ sluice, remote, clock }: { sluice: Sluice; remote: Remote; clock: Clock }) {
    this.#sluice = sluice
    this.#remote = remote
    this.#clock = clock
    this.#owners = new FlowOwners(remote)
  }

  /**
   * Calls `listener` at every message for the viewers of a tenant. Returns their channel, and a function that stops it.
   * @param tenant null: all tenants; empty: things without a tenant
   */
  listen(
    tenant: string | null,
    listener: (message: ChangeMessage) => void,
  ): { readonly channel: ChangeChannel; readonly stop: () => void } {
    const channel = this.#channels.get(tenant) ?? new ChangeChannel(this.#clock, tenant)
    this.#lingers.get(channel)?.cancel()
    const unlisten = channel.listen(listener)
    if (!this.#closed) this.#channels.set(tenant, channel)
    if (!this.#stops) this.#begin()
    const stop = (): void => {
      unlisten()
      if (channel.inUse || this.#closed) return
      this.#lingers.get(channel)?.cancel()
      const linger = this.#clock.setTimer(() => this.#leave(tenant, channel), LINGER_MS)
      linger.unref?.()
      this.#lingers.set(channel, linger)
    }
    return { channel, stop }
  }

  /**
   * Notes a change. @param name undefined: it may be anything of the topic
   * @param owner the stored name of its owner; null: no tenant sees it
   */
  note(topic: Topic, name: string | undefined, owner: string | null): void {
    this.#channels.get(null)?.note(topic, name)
    if (owner !== null) this.#channels.get(splitName(owner).tenant)?.note(topic, name)
  }

  /** Notes that anything of some tenants may have changed. @param tenants null among them: any tenant */
  noteAll(tenants: ReadonlySet<string | null>): void {
    const told = tenants.has(null) ? this.#channels.keys() : [null, ...tenants]
    for (const tenant of told) for (const topic of TOPICS) this.#channels.get(tenant)?.note(topic, undefined)
  }

  close(): void {
    this.#closed = true
    for (const [tenant, channel] of this.#channels) this.#leave(tenant, channel)
  }

  #leave(tenant: string | null, channel: ChangeChannel): void {
    channel.close()
    this.#lingers.get(channel)?.cancel()
    this.#lingers.delete(channel)
    this.#channels.delete(tenant)
    if (this.#channels.size > 0) return
    for (const stop of this.#stops ?? []) stop()
    this.#stops = null
    this.#othersWrite = false
    this.#look?.cancel()
    this.#look = null
  }

  #begin(): void {
    if (this.#closed) return
    const { on } = this.#sluice
    this.#stops = [
      ...JOB_EVENTS.map((name) =>
        on(name, ({ id, queue }) => {
          this.note('jobs', id, queue)
          this.note('queues', queue, queue)
        }),
      ),
      ...LIMIT_EVENTS.map((name) => on(name, ({ limit }) => this.note('limits', limit, limit))),
      ...SCHEDULE_EVENTS.map((name) => on(name, ({ schedule }) => this.note('schedules', schedule, schedule))),
      ...FLOW_EVENTS.map((name) => on(name, ({ id }) => this.#noteFlow(id))),
      // No tenant sees the workers of engines.
      on('worker.started', () => this.note('workers', undefined, '')),
      on('worker.stopped', () => this.note('workers', undefined, '')),
    ]
    this.#lookLater()
    this.#watch().catch(() => undefined)
  }

  #noteFlow(id: string): void {
    const all = this.#channels.get(null)
    all?.note('flows', id)
    if (this.#channels.size === (all ? 1 : 0)) return
    this.#owners.of(id).then(
      (tenant) => (tenant === null ? undefined : this.#channels.get(tenant)?.note('flows', id)),
      // Its tenant must not miss the change.
      () => this.#channels.forEach((channel) => channel.note('flows', undefined)),
    )
  }

  async #watch(): Promise<void> {
    const store = await this.#remote.store()
    const stop = store.watch((change, isOwn) => {
      // The events of this process have named what it has changed.
      if (isOwn) return
      // PostgreSQL says `any` as it begins to listen, and else names what another process has changed.
      if (change === 'any' && store.backend === 'postgres') this.#mayHaveMissed = true
      else this.#othersWrite = true
      for (const topic of ['jobs', 'queues', 'limits', 'flows'] as const) this.note(topic, undefined, null)
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

  /**
   * SQLite tells every commit of other processes; PostgreSQL does not tell their starts. Neither tells whose things have
   * changed. So each tenant looks again once a second while others write.
   */
  async #lookNow(): Promise<void> {
    const mayHaveMissed = this.#mayHaveMissed
    this.#mayHaveMissed = false
    if (mayHaveMissed || this.#othersWrite || (await this.#othersRun())) this.noteAll(new Set([null]))
  }

  async #othersRun(): Promise<boolean> {
    const store = await this.#remote.store()
    if (store.backend === 'sqlite') return false
    const engines = (await store.workers()).filter(({ alive, name }) => alive && name === null).length
    return engines > (internalsOf(this.#sluice).state().isRunning ? 1 : 0)
  }
}
