import type { Clock } from '../base/clock.ts'
import type { Sluice } from '../engine/engine.ts'
import type { SluiceEvents } from '../engine/events.ts'
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

/** An event with whose it is. */
export interface LoggedEvent {
  readonly seq: number
  readonly tenant: string
  readonly event: OjsEvent
}

const KEPT = 10_000
const NAMES = [
  'job.enqueued',
  'job.started',
  'job.progress',
  'job.completed',
  'job.failed',
  'job.retrying',
  'job.discarded',
  'job.cancelled',
  'job.lease_lost',
  'job.recovered',
  'rate_limit.exceeded',
  'rate_limit.released',
  'rate_limit.dropped',
  'rate_limit.dynamic_adjusted',
  'rate_limit.unknown',
  'schedule.fired',
  'schedule.skipped',
  'schedule.ended',
] as const satisfies readonly (keyof SluiceEvents)[]

/** The last 10,000 events of this server, for whoever polls or listens. */
export class EventLog {
  readonly #clock: Clock
  readonly #newId: () => string
  readonly #events: LoggedEvent[] = []
  readonly #listeners = new Set<(event: LoggedEvent) => void>()
  readonly #started = new Map<string, number>()
  readonly #counts = new Map<string, number>()
  readonly #stops: (() => void)[]
  #seq = 0

  constructor(sluice: Sluice, clock: Clock, newId: () => string) {
    this.#clock = clock
    this.#newId = newId
    this.#stops = NAMES.map((name) => sluice.on(name, (event) => this.#add(name, event)))
  }

  /** How often each type of event has been told since the start. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts
  }

  /** Events behind a cursor that match, oldest first. @param after the `seq` of the last one known */
  after(after: number, matches: (event: LoggedEvent) => boolean, limit: number): LoggedEvent[] {
    const found: LoggedEvent[] = []
    const first = this.#events[0]?.seq ?? 0
    for (let i = Math.max(0, after + 1 - first); i < this.#events.length && found.length < limit; i++) {
      const event = this.#events[i] as LoggedEvent
      if (matches(event)) found.push(event)
    }
    return found
  }

  /** Calls `listener` at every event; returns how to stop that. */
  listen(listener: (event: LoggedEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  close(): void {
    for (const stop of this.#stops) stop()
    this.#listeners.clear()
  }

  #add<N extends (typeof NAMES)[number]>(type: N, payload: SluiceEvents[N]): void {
    const { tenant, data, subject } = this.#describe(type, { ...payload })
    this.#counts.set(type, (this.#counts.get(type) ?? 0) + 1)
    const logged: LoggedEvent = {
      seq: ++this.#seq,
      tenant,
      event: {
        specversion: '1.0',
        id: `evt_${this.#newId()}`,
        type,
        source: 'sluice',
        time: new Date(this.#clock.now()).toISOString(),
        subject,
        datacontenttype: 'application/json',
        data,
      },
    }
    this.#events.push(logged)
    // Thrown away by the thousand, since taking away the first moves all others.
    if (this.#events.length > KEPT + 1000) this.#events.splice(0, this.#events.length - KEPT)
    for (const listener of this.#listeners) listener(logged)
  }

  #describe(
    type: string,
    payload: Readonly<Record<string, unknown>>,
  ): { tenant: string; subject: string; data: Record<string, unknown> } {
    const { id, task, error, key, ...rest } = payload
    const [queue, limit, schedule] = [text(rest['queue']), text(rest['limit']), text(rest['schedule'])]
    const own = splitName(queue ?? limit ?? schedule ?? '')
    const data: Record<string, unknown> = Object.fromEntries(
      Object.entries(rest).map(([name, value]) => [snake(name), value]),
    )
    if (id !== undefined) Object.assign(data, { job_id: id, job_type: task })
    if (queue !== undefined) data['queue'] = splitName(queue).name
    if (limit !== undefined) Object.assign(data, { limit: splitName(limit).name, key })
    if (schedule !== undefined) data['schedule'] = splitName(schedule).name
    if (error instanceof Error) data['error'] = { message: error.message }
    if (typeof id === 'string') this.#time(type, id, data)
    return { tenant: own.tenant, subject: text(id) ?? own.name, data }
  }

  #time(type: string, id: string, data: Record<string, unknown>): void {
    const nowMs = this.#clock.now()
    if (type === 'job.started') {
      if (this.#started.size >= KEPT) this.#started.clear()
      this.#started.set(id, nowMs)
    }
    if (type === 'job.completed' || type === 'job.failed') {
      data['duration_ms'] = Math.max(0, Math.round(nowMs - (this.#started.get(id) ?? nowMs)))
      this.#started.delete(id)
    }
  }
}

function snake(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
