import { type KV, type KvEntry, Kvm } from '@nats-io/kv'
import { systemClock } from '../../base/clock.ts'

/** A connection to NATS, or a client of its JetStream. */
export type NatsConnection = ConstructorParameters<typeof Kvm>[0]

/** An entry as it was read. */
export interface Entry {
  /** '': there is none. */
  readonly text: string
  /** 0: there never was one. */
  readonly revision: number
  /** Names this writing of it: a stream that was made again counts its revisions from 1 again. */
  readonly writing: string
}

/** How long one operation may take. The client itself would wait for 5 s. */
const OPERATION_MS = 200
const READ_MS = 20

/** The codes of JetStream for a race that another writer won. */
const LOST_RACE = new Set([10071, 10164])

/** The key-value bucket of a namespace. It is made again where the server has lost it. */
export class Entries {
  readonly #connection: () => Promise<NatsConnection>
  readonly #name: string
  readonly #replicas: number
  #kv: Promise<KV> | null = null

  constructor(connection: () => Promise<NatsConnection>, namespace: string, replicas: number) {
    this.#connection = connection
    this.#name = `sluice_${Buffer.from(namespace).toString('base64url')}`
    this.#replicas = replicas
  }

  async get(key: string): Promise<Entry> {
    const entry = await this.entry(key)
    const revision = entry?.revision ?? 0
    const writing = `${revision} ${entry?.created.getTime()}`
    return { text: entry?.operation === 'PUT' ? entry.string() : '', revision, writing }
  }

  entry(key: string): Promise<KvEntry | null> {
    return this.#with((kv) => kv.get(key))
  }

  /** Writes an entry unless it has changed since it was read; the new revision. 0: another writer was first. */
  async update(key: string, text: string, revision: number): Promise<number> {
    try {
      return await this.#with((kv) => kv.put(key, text, { previousSeq: revision }))
    } catch (error) {
      if (isLostRace(error)) return 0
      throw error
    }
  }

  put(key: string, text: string): Promise<number> {
    return this.#with((kv) => kv.put(key, text))
  }

  /** Removes an entry, unless it has changed since. */
  async purge(key: string, revision: number): Promise<void> {
    await this.#with((kv) => kv.purge(key, { previousSeq: revision })).catch(() => undefined)
  }

  async #with<T>(work: (kv: KV) => Promise<T>): Promise<T> {
    this.#kv ??= this.#open()
    const kv = this.#kv
    try {
      return await inTime(async () => work(await kv))
    } catch (error) {
      // The stream may be gone: the next call makes it again.
      if (!isLostRace(error) && this.#kv === kv) this.#kv = null
      throw error
    }
  }

  async #open(): Promise<KV> {
    return new Kvm(await this.#connection()).create(this.#name, { history: 1, replicas: this.#replicas })
  }
}

function isLostRace(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'code' in error && LOST_RACE.has(Number(error.code))
}

function inTime<T>(work: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = (): void => reject(new Error(`no answer within ${OPERATION_MS} ms`))
    // After a stall of this process the answer may be there, and is read only after the timers that are due.
    let timer = systemClock.setTimer(() => (timer = systemClock.setTimer(late, READ_MS)), OPERATION_MS - READ_MS)
    work()
      .finally(() => timer.cancel())
      .then(resolve, reject)
  })
}
