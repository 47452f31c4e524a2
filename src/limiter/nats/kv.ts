import type * as Nats from '@nats-io/kv'
import { systemClock } from '../../base/clock.ts'
import { optionalPackage } from '../../base/optional-package.ts'
import { pauseAfter } from '../../base/persist.ts'
import { systemRandom } from '../../base/random.ts'

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
const FIRST_PAUSE_MS = 50
/** The server knows the name of a writing for 2 min, unless the stream was made with another window. */
const KNOWN_US = 100_000_000

/** The codes of JetStream for a race that another writer won. */
const LOST_RACE = new Set([10071, 10164])
/** The first of its codes, and that of a writing that it is about to write already. */
const FIRST_CODE = 10_000
const IN_PROCESS = 10_158

/** The key-value bucket of a namespace. It is made again where the server has lost it. */
export class Entries {
  readonly #connection: () => Promise<NatsConnection>
  readonly #name: string
  readonly #replicas: number
  #kv: Promise<Nats.KV> | null = null
  /** The server lets this connection remove no message of the stream. */
  #leavesMarkers = false
  /** Names the writings of this process, unlike those of any other. */
  readonly #prefix = `${nonce()}${nonce()}.`
  #writings = 0

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
   * Writes an entry unless it has changed since it was read; the new revision. 0: another writer was first. Without an
   * answer the same writing is sent again, once the server answers: it knows by the name whether it had it.
   * @throws {UnknownFate} it may be written: the server gave no answer for as long as it would know
   */
  async update(key: string, text: string, revision: number): Promise<number> {
    const untilUs = systemClock.monotonicUs() + KNOWN_US
    const terms = { msgID: `${this.#prefix}${++this.#writings}`, expect: { lastSubjectSequence: revision } }
    let unanswered: unknown = null
    for (let failures = 0; ;) {
      try {
        return await this.#with((kv) => written(kv as Nats.Bucket, key, text, terms))
      } catch (error) {
        if (isLostRace(error)) return 0
        if (isAnswer(error) || (unanswered === null && !isLate(error))) throw error
        unanswered = error
      }
      do {
        if (systemClock.monotonicUs() > untilUs) throw new UnknownFate(unanswered)
        if (failures > 0) await pause(pauseAfter(failures, FIRST_PAUSE_MS))
        failures++
      } while (!(await this.#answers(key)))
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

  /** @throws {UnknownFate} the connection was closed */
  async #answers(key: string): Promise<boolean> {
    try {
      await this.get(key)
      return true
    } catch (error) {
      if (isClosed(error)) throw new UnknownFate(error)
      return false
    }
  }

  async #with<T>(work: (kv: Nats.KV) => Promise<T>): Promise<T> {
    this.#kv ??= this.#open()
    const kv = this.#kv
    try {
      return await inTime(kv.then(work))
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

async function written(kv: Nats.Bucket, key: string, text: string, terms: Parameters<Nats.Bucket['js']['publish']>[2]) {
  return (await kv.js.publish(kv.subjectForKey(key, true), text, terms)).seq
}

function codeOf(error: unknown): number {
  return typeof error === 'object' && error !== null && 'code' in error ? Number(error.code) : NaN
}

function isLostRace(error: unknown): boolean {
  return LOST_RACE.has(codeOf(error))
}

/** The server refuses the writing, and would have told if it had it. */
function isAnswer(error: unknown): boolean {
  return codeOf(error) >= FIRST_CODE && codeOf(error) !== IN_PROCESS
}

function isLate(error: unknown): boolean {
  return error instanceof LateAnswer || (error instanceof Error && error.name === 'TimeoutError')
}

function isClosed(error: unknown): boolean {
  return error instanceof Error && error.name === 'ClosedConnectionError'
}

/** An answer is late. It may come yet. */
class LateAnswer extends Error {}

/** An entry may be written, or not: that cannot be found out any more. */
export class UnknownFate extends Error {
  constructor(cause: unknown) {
    super('no answer tells whether an entry was written', { cause })
  }
}

function inTime<T>(answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = (): void => reject(new LateAnswer(`no answer within ${ANSWER_MS} ms`))
    // After a stall of this process the answer may be there, and is read only after the timers that are due.
    let timer = systemClock.setTimer(() => (timer = systemClock.setTimer(late, READ_MS)), ANSWER_MS - READ_MS)
    answer.finally(() => timer.cancel()).then(resolve, reject)
  })
}

/** Waits, and keeps no process alive for that. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => systemClock.setTimer(resolve, ms).unref?.())
}

const nonce = (): string => Math.floor(systemRandom.next() * 2 ** 52).toString(36)
