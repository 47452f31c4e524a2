import type { Clock } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import type { Sluice } from '../engine/engine.ts'
import type { SluiceEvents } from '../engine/events/events.ts'
import { codeOf } from './ojs/job-json.ts'
import { splitName } from './tenant.ts'

/** An event in the form of CloudEvents, as the Open Job Spec has it. */
export interface OjsEvent {
  readonly specversion: '1.0'
  readonly id: string
  readonly type: string
  readonly source: string
  readonly time: string
  readonly subject: string
  readonly datacontenttype: 'application/json'
  readonly data: Readonly<Record<string, unknown>>
}

/** An event with its owner. It takes its final form at its first read, since most events are never read. */
export class LoggedEvent {
  readonly tenant: string
  /** Its place among the events of its tenant. */
  readonly seq: number
  readonly #record: EventRecord
  #shown: OjsEvent | null = null

  constructor(tenant: string, seq: number, record: EventRecord) {
    this.tenant = tenant
    this.seq = seq
    this.#record = record
  }

  get event(): OjsEvent {
    return (this.#shown ??= describe(this.#record))
  }
}

/** The event, its time and the duration of its run. */
interface EventRecord {
  readonly type: string
  readonly payload: Readonly<Record<string, unknown>>
  readonly atMs: number
  readonly durationMs: number | null
  readonly newId: () => string
}

const KEPT = 10_000
/** The most tenants whose last places are kept, unless more have events of this very ms. */
const TENANTS_AT_MOST = 10_000
const NAMES = [
  'job.enqueued',
  'job.started',
  'job.progress',
  'job.completed',
  'job.failed',
  'job.retrying',
  'job.snoozed',
  'job.discarded',
  'job.cancelled',
  'job.lease_lost',
  'job.recovered',
  'rate_limit.exceeded',
  'rate_limit.released',
  'rate_limit.shadow',
  'rate_limit.dropped',
  'rate_limit.dynamic_adjusted',
  'rate_limit.unknown',
  'schedule.fired',
  'schedule.skipped',
  'schedule.ended',
] as const satisfies readonly (keyof SluiceEvents)[]

/** The last 10,000 events of this server, for pollers and listeners. */
export class EventLog {
  readonly #clock: Clock
  readonly #newId: () => string
  readonly #events: LoggedEvent[] = []
  readonly #listeners = new Set<(event: LoggedEvent) => void>()
  readonly #started = new Map<string, number>()
  readonly #counts = new Map<string, number>()
  readonly #stops: (() => void)[]
  /**
   * By tenant: the `seq` of its last event. It is the time of the event in µs, or one more than that of the event before.
   * So it tells a tenant nothing about the events of others. And a client whose cursor is of an earlier server on the
   * same store misses no event of this one.
   */
  readonly #last = new Map<string, number>()
  /** The latest time that the clock has shown: it may be set back. */
  #nowMs = 0

  constructor(sluice: Sluice, clock: Clock, newId: () => string) {
    this.#clock = clock
    this.#newId = newId
    this.#stops = NAMES.map((name) => sluice.on(name, (event) => this.#add(name, event)))
  }

  /** The number of events of each type since the start. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts
  }

  /** The cursor behind all events of a tenant so far. */
  latest(tenant: string): number {
    return Math.max(this.#last.get(tenant) ?? 0, this.#nowUs() - 1)
  }

  /** Returns the events of a tenant behind a cursor that match, oldest first. @param after the `seq` of the last known one */
  after(tenant: string, after: number, matches: (event: LoggedEvent) => boolean, limit: number): LoggedEvent[] {
    const found: LoggedEvent[] = []
    for (const event of this.#events) {
      if (found.length >= limit) break
      if (event.tenant === tenant && event.seq > after && matches(event)) found.push(event)
    }
    return found
  }

  /** Calls `listener` at every event. Returns a function that stops it. */
  listen(listener: (event: LoggedEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  close(): void {
    for (const stop of this.#stops) stop()
    this.#listeners.clear()
  }

  #add<N extends (typeof NAMES)[number]>(type: N, payload: SluiceEvents[N]): void {
    this.#counts.set(type, (this.#counts.get(type) ?? 0) + 1)
    const atMs = this.#clock.now()
    const durationMs = 'id' in payload ? this.#duration(type, payload.id, atMs) : null
    const record: EventRecord = {
      type,
      payload: { ...payload },
      atMs,
      durationMs,
      newId: this.#newId,
    }
    const { tenant } = ownerOf(record.payload)
    const logged = new LoggedEvent(tenant, this.#next(tenant), record)
    this.#events.push(logged)
    // Events are removed by the thousand, since removing the first moves all others.
    if (this.#events.length > KEPT + 1000) this.#events.splice(0, this.#events.length - KEPT)
    for (const listener of this.#listeners) listener(logged)
  }

  #next(tenant: string): number {
    const nowUs = this.#nowUs()
    const seq = Math.max((this.#last.get(tenant) ?? 0) + 1, nowUs)
    // An earlier time says no more than the clock does.
    if (this.#last.size >= TENANTS_AT_MOST)
      for (const [each, last] of this.#last) if (last < nowUs) this.#last.delete(each)
    this.#last.set(tenant, seq)
    return seq
  }

  #nowUs(): number {
    this.#nowMs = Math.max(this.#nowMs, Math.floor(this.#clock.now()))
    return this.#nowMs * 1000
  }

  /** The duration of the run that an event ends; null: the event ends no run. */
  #duration(type: string, id: string, nowMs: number): number | null {
    if (type === 'job.started') {
      if (this.#started.size >= KEPT) this.#started.clear()
      this.#started.set(id, nowMs)
    }
    if (type !== 'job.completed' && type !== 'job.failed') return null
    const startedMs = this.#started.get(id) ?? nowMs
    this.#started.delete(id)
    return Math.max(0, Math.round(nowMs - startedMs))
  }
}

/** The tenant whose thing an event is about, and the tenant's name of that thing. */
function ownerOf({ queue, limit, schedule }: Readonly<Record<string, unknown>>): { tenant: string; name: string } {
  return splitName(text(queue) ?? text(limit) ?? text(schedule) ?? '')
}

function describe({ type, payload, atMs, durationMs, newId }: EventRecord): OjsEvent {
  const { id, task, error, key, ...rest } = payload
  const [queue, limit, schedule] = [text(rest['queue']), text(rest['limit']), text(rest['schedule'])]
  const data: Record<string, unknown> = Object.fromEntries(
    Object.entries(rest).map(([name, value]) => [snake(name), value]),
  )
  if (id !== undefined) Object.assign(data, { job_id: id, job_type: task })
  if (queue !== undefined) data['queue'] = splitName(queue).name
  if (limit !== undefined) Object.assign(data, { limit: splitName(limit).name, key })
  if (schedule !== undefined) data['schedule'] = splitName(schedule).name
  if (error instanceof Error) data['error'] = errorJson(error)
  if (type === 'job.enqueued') data['attempt'] = 0
  if (durationMs !== null) data['duration_ms'] = durationMs
  return {
    specversion: '1.0',
    id: `evt_${newId()}`,
    type,
    source: 'sluice',
    time: new Date(atMs).toISOString(),
    subject: text(id) ?? ownerOf(payload).name,
    datacontenttype: 'application/json',
    data,
  }
}

/** The cause holds a remote worker's own error name. */
function errorJson(error: Error): { code: string; message: string } {
  const { code: called } = (error.cause ?? {}) as { readonly code?: unknown }
  const own = error instanceof SluiceError ? error.code : 'handler.failed'
  return { code: typeof called === 'string' ? called : codeOf(own), message: error.message }
}

function snake(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
