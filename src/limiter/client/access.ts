import type { Clock } from '../../base/clock.ts'
import { mayPass, SluiceError } from '../../base/errors.ts'
import type {
  BucketName,
  BucketUse,
  ChargeName,
  HeldPermit,
  LimitBackend,
  UnitAnswer,
  UnitRequest,
  WaitTerms,
} from '../contract/limiter.ts'
import { Once } from '../../base/promises.ts'
import type { FailMode } from './options.ts'
import type { Refunds, RefundsObserver } from './refunds.ts'
import type { LimiterLimits } from './uses.ts'

/** How long one try of a call may take. What is only late is waited for in the next try: it is not asked twice. */
const CALL_MS = 250
/** The end of it, in which this process reads what has come. */
const READ_MS = 20
/** The pauses before each short retry. */
const RETRIES_MS = [10, 40]
/** A backend that does not answer within this time counts as down. */
const LONGEST_CALL_US = CALL_MS * 1000 * (RETRIES_MS.length + 1)
/** While the backend is down it is asked after this time, then after twice as long. */
const FIRST_PROBE_US = 25_000
const SLOWEST_PROBE_US = 200_000

/** Who learns how a backend is. */
export interface BackendObserver extends RefundsObserver {
  down(error: unknown): void
  up(downUs: number, grantedBlindly: number): void
  /** The backend lost the limits, and this process defined them again. Their buckets are new. */
  reset(): void
  /** The backend may have taken these permits, and only its answer is missing. */
  lost(permits: readonly HeldPermit[]): void
}

/** The parts of the access to a backend. */
export interface AccessOptions {
  readonly clock: Clock
  readonly limits: Pick<LimiterLimits, 'definitions'>
  readonly failMode: (limit: string) => FailMode
  readonly observer: BackendObserver
  /** Names the corrections of this process, unlike those of any other. */
  readonly prefix: string
}

/** The access to a backend: it defines the limits there, and goes on while the backend cannot be reached. */
export class Access {
  readonly #backend: () => Promise<LimitBackend>
  readonly #options: AccessOptions
  readonly #isLocal: boolean
  #defined: Promise<unknown> | null = null
  #isDefined = false
  #known: LimitBackend | null = null
  #downSinceUs: number | null = null
  /** A call that has to be written has failed since then. */
  #isRefusing = false
  #probeUs = 0
  #probes = 0
  #blind = 0
  #blindAtDown = 0
  #calls = 0
  /** When the backend last got limits again that it had lost. */
  #resetUs = -Infinity
  // Their code is loaded with the first one, so that a limiter without them stays small.
  readonly #loading = new Once(async () => {
    const { Refunds: Made } = await import('./refunds.ts')
    const { charge, isNamed } = { charge: this.#charge.bind(this), isNamed: () => this.#known?.namesCharges === true }
    return (this.#refunds = new Made({ ...this.#options, charge, isNamed }))
  })
  #refunds: Refunds | null = null
  readonly #detach: () => void

  constructor(backend: () => Promise<LimitBackend>, isLocal: boolean, options: AccessOptions) {
    this.#backend = backend
    this.#isLocal = isLocal
    this.#options = options
    // A manual clock waits for calls of the backend.
    this.#detach = options.clock.attach?.({ pending: () => this.#calls > 0, running: () => 0 }) ?? noop
  }

  /** The backend cannot be reached. */
  get isDown(): boolean {
    return this.#downSinceUs !== null
  }

  /** Units that were granted without asking the backend, since it could not be reached. */
  get grantedBlindly(): number {
    return this.#blind
  }

  /** Asks a backend of this process for one start at once; null: it is not of this process, or not open yet. */
  acquireNow(request: UnitRequest): UnitAnswer | null {
    return this.#isLocal && this.#isDefined ? (this.#known?.acquireNow?.(request) ?? null) : null
  }

  /** Asks for units. It never throws because the backend cannot be reached. */
  async acquire(requests: readonly UnitRequest[]): Promise<readonly UnitAnswer[]> {
    if (this.#isLocal && this.#isDefined && this.#known) return this.#asked(this.#known, requests)
    if (this.isDown && this.#options.clock.monotonicUs() < this.#probeUs) {
      // Callers without I/O of their own would keep the process from all else.
      await new Promise<void>((resolve) => setImmediate(resolve))
      if (this.isDown) return this.#unreached(requests)
    }
    let instead: readonly UnitAnswer[] = []
    let tries = 0
    try {
      const answers = await this.call(
        (backend) => {
          tries++
          return this.#asked(backend, requests)
        },
        (late) => this.#giveBack(requests, late, instead),
      )
      // A try whose answer was lost may hold the permits that a later one was denied.
      if (tries > 1) this.#lost(requests.filter((_, i) => answers[i]?.kind !== 'granted'))
      return answers
    } catch (error) {
      if (isRefusal(error)) throw error
      this.#lost(requests)
      return (instead = this.#unreached(requests))
    }
  }

  /** Lets a request wait at a backend with wait lists of its own. */
  async wait(request: UnitRequest, terms: WaitTerms): Promise<UnitAnswer> {
    try {
      const answer = await this.call(async (backend) => {
        try {
          return (await backend.wait?.(request, terms)) ?? ((await this.#asked(backend, [request]))[0] as UnitAnswer)
        } catch (error) {
          // The backend is not at fault when the caller stops.
          if (terms.signal?.aborted) return null
          throw error
        }
      })
      if (answer === null) throw terms.signal?.reason
      return answer
    } catch (error) {
      if (isRefusal(error) || terms.signal?.aborted) throw error
      this.#lost([request])
      return this.#unreached([request])[0] as UnitAnswer
    }
  }

  /**
   * Calls the backend, with two short retries.
   * @param late gets the answer that comes after the caller was told that there is none
   * @param proves a server that is full, or a replica, refuses this call: its answer tells that units can be granted
   * @throws {SluiceError} `limiter.backend_down`, and what the verb throws
   */
  async call<T>(work: (backend: LimitBackend) => Promise<T>, late?: (answer: T) => unknown, proves = true): Promise<T> {
    const pauses = this.isDown ? [] : RETRIES_MS
    const beganUs = this.#options.clock.monotonicUs()
    // Others do not ask while this call finds out.
    if (this.isDown) this.#probeUs = beganUs + CALL_MS * 1000
    let running: Promise<T> | null = null
    for (let tries = 0; ; tries++) {
      try {
        // Loading code is not the server's time.
        this.#known ??= await this.#backend()
        running ??= this.#begin(this.#known, work)
        const answer = await this.#inTime(running)
        this.#reached(proves)
        return answer
      } catch (error) {
        if (isRefusal(error)) {
          this.#reached(false)
          throw error
        }
        const isLate = error instanceof LateAnswer
        const pauseMs = pauses[tries]
        if (pauseMs === undefined) {
          if (isLate)
            running?.then((answer) => {
              // A backend that is back may be slow.
              if (this.#options.clock.monotonicUs() - beganUs <= LONGEST_CALL_US) this.#reached(proves)
              return late?.(answer)
            }, noop)
          throw this.#failed(error, proves)
        }
        if (isLate) continue
        running = null
        await new Promise<void>((resolve) => this.#options.clock.setTimer(resolve, pauseMs))
      }
    }
  }

  async #begin<T>(backend: LimitBackend, work: (backend: LimitBackend) => Promise<T>): Promise<T> {
    if (!this.#isDefined) await this.#define(backend)
    const askedUs = this.#options.clock.monotonicUs()
    try {
      return await work(backend)
    } catch (error) {
      if (!isUnknown(error)) throw error
      await this.#defineLost(backend, askedUs)
      return work(backend)
    }
  }

  /** Calls the backend once. Units may be refused all the same, so its answer does not tell that it is up. */
  async once<T>(work: (backend: LimitBackend) => Promise<T>): Promise<T> {
    const backend = (this.#known ??= await this.#backend())
    return this.#inTime(work(backend))
  }

  /**
   * Corrects a charge. Units that return do so once, although an answer was lost; they may after this has thrown.
   * @throws {SluiceError} `limiter.backend_down`, and what the verb throws
   */
  async charge(bucket: BucketName, units: number, atUs: number): Promise<void> {
    if (units < 0 && this.#isLocal) return this.#charge(bucket, units, atUs)
    const refunds = this.#isLocal ? null : await this.#loaded()
    if (units < 0) return refunds?.give(bucket, units, atUs)
    const name = refunds?.name(bucket.limit)
    return this.call((backend) => backend.charge(bucket, units, atUs, name))
  }

  /** Gives back the units of a start that no caller uses. One that went on without its budget has taken none. */
  async giveBack(uses: readonly BucketUse[], atUs: number): Promise<void> {
    // A limit of permits alone takes no units back.
    if (atUs !== 0) await Promise.allSettled(uses.map((use) => this.charge(use, -use.weight, atUs)))
  }

  async #charge(bucket: BucketName, units: number, atUs: number, name?: ChargeName): Promise<void> {
    try {
      await this.once((backend) => backend.charge(bucket, units, atUs, name))
    } catch (error) {
      // The bucket is gone, and its charge with it.
      if (units < 0 && isUnknown(error)) return
      throw isRefusal(error) ? error : unreached(error)
    }
  }

  async #loaded(): Promise<Refunds> {
    if (this.#refunds) return this.#refunds
    // A manual clock stands still meanwhile.
    this.#calls++
    return this.#loading.done().finally(() => this.#calls--)
  }

  /** Defines limits that were added later. */
  again(): void {
    this.#defined = null
    this.#isDefined = false
  }

  async close(): Promise<void> {
    this.#detach()
    await this.#refunds?.end()
    await this.#known?.close()
  }

  async #define(backend: LimitBackend): Promise<void> {
    // Limits that are added while a definition is under way have to be defined, too.
    while (!this.#isDefined) {
      const defined = (this.#defined ??= backend.define(this.#options.limits.definitions()))
      try {
        await defined
        this.#isDefined = this.#defined === defined
      } catch (error) {
        this.again()
        throw error
      }
    }
  }

  /** A backend that lost its limits gets them again. */
  async #asked(backend: LimitBackend, requests: readonly UnitRequest[]): Promise<readonly UnitAnswer[]> {
    const askedUs = this.#options.clock.monotonicUs()
    const answers = checked(await backend.acquire(requests), requests)
    const lost = new Set(answers.flatMap((answer) => (answer.kind === 'unknown' ? [answer.limit] : [])))
    if (lost.size === 0) return answers
    await this.#defineLost(backend, askedUs)
    const unknown = requests.filter((_, i) => answers[i]?.kind === 'unknown')
    const again = [...checked(await backend.acquire(unknown), unknown)]
    return answers.map((answer) => (answer.kind === 'unknown' ? (again.shift() ?? answer) : answer))
  }

  /** Defines limits again that a call found lost. */
  async #defineLost(backend: LimitBackend, askedUs: number): Promise<void> {
    await backend.define(this.#options.limits.definitions())
    // Several calls may find the same loss.
    if (askedUs <= this.#resetUs) return
    this.#resetUs = this.#options.clock.monotonicUs()
    this.#options.observer.reset()
  }

  async #inTime<T>(answer: Promise<T>): Promise<T> {
    if (this.#isLocal) return answer
    this.#calls++
    return new Promise<T>((resolve, reject) => {
      const { clock } = this.#options
      const late = (): void => reject(new LateAnswer(`no answer within ${CALL_MS} ms`))
      // After a stall of this process the answer may be there, and is read only after the timers that are due.
      let timer = clock.setTimer(() => (timer = clock.setTimer(late, READ_MS)), CALL_MS - READ_MS)
      answer.finally(() => timer.cancel()).then(resolve, reject)
    }).finally(() => this.#calls--)
  }

  #reached(proves: boolean): void {
    if (this.#downSinceUs === null || (this.#isRefusing && !proves)) return
    this.#isRefusing = false
    const downUs = this.#options.clock.monotonicUs() - this.#downSinceUs
    this.#downSinceUs = null
    this.#probes = 0
    this.#options.observer.up(downUs, this.#blind - this.#blindAtDown)
    void this.#refunds?.flush()
  }

  #failed(cause: unknown, proves: boolean): SluiceError {
    this.#isRefusing ||= proves
    const nowUs = this.#options.clock.monotonicUs()
    const error = unreached(cause)
    this.#probeUs = nowUs + Math.min(FIRST_PROBE_US * 2 ** Math.min(this.#probes++, 10), SLOWEST_PROBE_US)
    if (this.#downSinceUs === null) {
      this.#downSinceUs = nowUs
      this.#blindAtDown = this.#blind
      this.#options.observer.down(error)
    }
    return error
  }

  /** Gives back what was granted after the callers had another answer. A start that went on blindly keeps its units. */
  #giveBack(requests: readonly UnitRequest[], answers: readonly UnitAnswer[], instead: readonly UnitAnswer[]): void {
    this.#lost(requests)
    for (const [i, answer] of answers.entries()) {
      if (answer.kind !== 'granted' || instead[i]?.kind === 'granted') continue
      void this.giveBack(requests[i]?.uses ?? [], answer.atUs)
    }
  }

  #lost(requests: readonly UnitRequest[]): void {
    const { limits, observer } = this.#options
    const counted = new Set(limits.definitions().flatMap(({ name, policy }) => (policy.concurrency ? [name] : [])))
    observer.lost(
      requests.flatMap(({ permit: id, uses }) => {
        const of = uses.filter(({ limit }) => counted.has(limit))
        return of.length > 0 ? [{ id, of }] : []
      }),
    )
  }

  #unreached(requests: readonly UnitRequest[]): readonly UnitAnswer[] {
    const retryAfterUs = Math.max(1000, this.#probeUs - this.#options.clock.monotonicUs())
    return requests.map(({ uses }) => {
      if (uses.every(({ limit }) => this.#options.failMode(limit) === 'open')) {
        this.#blind++
        return { kind: 'granted', atUs: 0, permit: null }
      }
      const by = uses.find(({ limit }) => this.#options.failMode(limit) === 'closed') ?? { limit: '', key: '' }
      return { kind: 'denied', by: { limit: by.limit, key: by.key }, retryAfterUs }
    })
  }
}

function unreached(cause: unknown): SluiceError {
  return new SluiceError(
    'limiter.backend_down',
    'The backend of this limiter cannot be reached. Check its address and that it runs; calls go on once it is back.',
    { cause, lasts: 'passes' },
  )
}

/** The answer of a backend is late. It may come yet. */
class LateAnswer extends Error {}

/** Anything but one answer for each request is trouble of the backend: calls would ask again without end. */
function checked(answers: readonly UnitAnswer[] | undefined, requests: readonly UnitRequest[]): readonly UnitAnswer[] {
  if (answers?.length === requests.length && answers.every(isAnswer)) return answers
  throw new Error('acquire did not give one answer for each request')
}

function isAnswer(answer: UnitAnswer | null | undefined): boolean {
  if (answer?.kind === 'denied') return answer.retryAfterUs === null || Number.isFinite(answer.retryAfterUs)
  return answer?.kind === 'granted' || answer?.kind === 'unknown'
}

/** The backend answered, and refused the call itself. */
function isRefusal(error: unknown): boolean {
  return error instanceof SluiceError && error.code !== 'limiter.backend_down' && !mayPass(error)
}

/** The backend does not know the limit that the call is about. */
function isUnknown(error: unknown): boolean {
  return error instanceof SluiceError && error.code === 'limit.unknown'
}

function noop(): void {}
