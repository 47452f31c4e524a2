import type * as Nats from '@nats-io/kv'
import { systemClock } from '../../base/clock.ts'
import { optionalPackage } from '../../base/optional-package.ts'

const nats: typeof Nats = optionalPackage('@nats-io/kv', 'sluice/nats')

/** A connection to NATS, or a client of its JetStream. */
export type NatsConnection = ConstructorParameters<typeof Nats.Kvm>[0]

/** An entry as it was read. */
export interface Entry {
  /** '': there is none. */
  readonly text: string
  /** 0: there never was one. */
  readonly revision: number
  /** Names this writing of it: a stream that was made again counts its revisions from 1 again. */
  readonly writing: string
}

/** An answer is late after this time. The client itself would wait for 5 s. */
const ANSWER_MS = 200
const READ_MS = 20

/** The codes of JetStream for a race that another writer won. */
const LOST_RACE = new Set([10071, 10164])

/** The key-value bucket of a namespace. It is made again where the server has lost it. */
export class Entries {
  readonly #connection: () => Promise<NatsConnection>
  readonly #name: string
  readonly #replicas: number
  #kv: Promise<Nats.KV> | null = null
  /** The server lets this connection remove no message of the stream. */
  #leavesMarkers = false

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

  entry(key: string): Promise<Nats.KvEntry | null> {
    return this.#with((kv) => kv.get(key))
  }

  /**
   * Writes an entry unless it has changed since it was read; the new revision. 0: another writer was first.
   * @param late called if the entry is written although this has thrown
   */
  async update(key: string, text: string, revision: number, late?: () => void): Promise<number> {
    const answer = this.#with((kv) => kv.put(key, text, { previousSeq: revision }), whenever)
    for (;;) {
      try {
        return await inTime(answer)
      } catch (error) {
        if (isLostRace(error)) return 0
        if (!(error instanceof LateAnswer)) throw error
        this.#kv = null
        const found = await this.get(key).catch(() => null)
        if (found?.text === text && found.revision > revision) return found.revision
        // A server that answers nothing may have written, and tells once it goes on.
        if (found === null) continue
        answer.then(late, () => undefined)
        throw error
      }
    }
  }

  put(key: string, text: string): Promise<number> {
    return this.#with((kv) => kv.put(key, text))
  }

  /** Removes an entry. False: it has changed since it was read, and stays. */
  async purge(key: string, revision: number): Promise<boolean> {
    if (this.#leavesMarkers) return this.#purgeByMarker(key, revision)
    try {
      // A purge of the key-value bucket would leave a marker for each key that there ever was.
      const filter = `$KV.${this.#name}.${key}`
      const work = async (kv: Nats.KV): Promise<{ purged: number }> => {
        const { jsm, stream } = kv as Nats.Bucket
        return jsm.streams.purge(stream, { filter, seq: revision + 1 })
      }
      return (await this.#with(work)).purged > 0
    } catch (error) {
      if (error instanceof LateAnswer) throw error
      // The rights of this connection may not reach so far.
      const isPurged = await this.#purgeByMarker(key, revision)
      this.#leavesMarkers = true
      return isPurged
    }
  }

  async #purgeByMarker(key: string, revision: number): Promise<boolean> {
    try {
      await this.#with((kv) => kv.purge(key, { previousSeq: revision }))
      return true
    } catch (error) {
      if (isLostRace(error)) return false
      throw error
    }
  }

  /** Removes the key-value bucket, with all that is in it. */
  async remove(): Promise<void> {
    await this.#with((kv) => kv.destroy())
    this.#kv = null
  }

  async #with<T>(work: (kv: Nats.KV) => Promise<T>, awaited: typeof inTime = inTime): Promise<T> {
    this.#kv ??= this.#open()
    const kv = this.#kv
    try {
      return await awaited(kv.then(work))
    } catch (error) {
      // The stream may be gone: the next call makes it again.
      if (!isLostRace(error) && this.#kv === kv) this.#kv = null
      throw error
    }
  }

  async #open(): Promise<Nats.KV> {
    return new nats.Kvm(await this.#connection()).create(this.#name, { history: 1, replicas: this.#replicas })
  }
}

function isLostRace(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'code' in error && LOST_RACE.has(Number(error.code))
}

/** An answer is late. It may come yet. */
class LateAnswer extends Error {}

function whenever<T>(answer: Promise<T>): Promise<T> {
  return answer
}

function inTime<T>(answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = (): void => reject(new LateAnswer(`no answer within ${ANSWER_MS} ms`))
    // After a stall of this process the answer may be there, and is read only after the timers that are due.
    let timer = systemClock.setTimer(() => (timer = systemClock.setTimer(late, READ_MS)), ANSWER_MS - READ_MS)
    answer.finally(() => timer.cancel()).then(resolve, reject)
  })
}
