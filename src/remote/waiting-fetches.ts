import type { Clock, Timer } from '../base/clock.ts'
import { asError } from '../base/thrown.ts'
import type { FetchedJob } from './joined-claims.ts'

/** One claim of a waiting fetch. It skips the queues that are known to be empty. `gone`: the fetch waits no more. */
export type TryClaim = (empty: ReadonlySet<string>, gone: () => boolean) => Promise<ClaimTry>

/** The answer of such a claim. */
export interface ClaimTry {
  readonly jobs: readonly FetchedJob[]
  /** The next try by the store's clock; null: at a wakeup only. */
  readonly nextWakeUs: number | null
}

/** A waiting fetch. */
export interface WaitingFetch {
  /** Equal for fetches that may share a claim: these have the same places. */
  readonly group: string
  /** The queues, by the names under which they may be known as empty. */
  readonly places: readonly string[]
  readonly waitMs: number
  /** Aborts when the caller has disconnected. */
  readonly signal: AbortSignal | undefined
  readonly tryClaim: TryClaim
  /** Gives back jobs that were claimed for a disconnected caller. */
  readonly giveBack: (jobs: readonly FetchedJob[]) => Promise<void>
}

interface Waiting extends WaitingFetch {
  readonly answer: (jobs: readonly FetchedJob[]) => void
  readonly fail: (error: unknown) => void
}

/**
 * Fetches that wait for work, in order of arrival. At a wakeup neighbours of one group
 * claim together, and the groups one by one. A queue that is empty for one
 * fetch is empty for those behind it, so an arrival costs one claim instead of one for each fetch.
 */
export class WaitingFetches {
  readonly #clock: Clock
  readonly #nowUs: () => number
  readonly #waiting = new Set<Waiting>()
  #serving = false
  #again = false
  #timer: Timer | null = null
  #stopped = false

  constructor(clock: Clock, nowUs: () => number) {
    this.#clock = clock
    this.#nowUs = nowUs
  }

  /** Waits until a claim brings jobs, the time ends, or the caller disconnects; the last two return no jobs. */
  wait(fetch: WaitingFetch): Promise<readonly FetchedJob[]> {
    const { waitMs, signal } = fetch
    if (this.#stopped || signal?.aborted) return Promise.resolve([])
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        timer.cancel()
        signal?.removeEventListener('abort', gone)
        this.#waiting.delete(waiting)
      }
      const answer = (jobs: readonly FetchedJob[]): void => {
        leave()
        resolve(jobs)
      }
      const fail = (error: unknown): void => {
        leave()
        reject(asError(error))
      }
      const gone = (): void => answer([])
      const timer = this.#clock.setTimer(gone, waitMs)
      const waiting: Waiting = { ...fetch, answer, fail }
      signal?.addEventListener('abort', gone)
      this.#waiting.add(waiting)
      this.wake()
    })
  }

  /** Makes waiting fetches try again: a job may start that could not before. */
  wake(): void {
    if (this.#waiting.size === 0 || this.#stopped) return
    if (this.#serving) this.#again = true
    else void this.#serve()
  }

  /** Answers all of them with no jobs. */
  stop(): void {
    this.#stopped = true
    this.#timer?.cancel()
    for (const waiting of this.#waiting) waiting.answer([])
  }

  async #serve(): Promise<void> {
    this.#serving = true
    let nextUs = Infinity
    do {
      this.#again = false
      nextUs = Infinity
      const empty = new Set<string>()
      for (const neighbours of neighboursOf(this.#waiting)) {
        const waiting = neighbours.filter((each) => this.#waiting.has(each))
        if (waiting.every(({ places }) => places.every((place) => empty.has(place)))) continue
        nextUs = Math.min(nextUs, ...(await Promise.all(waiting.map((each) => this.#serveOne(each, empty)))))
      }
    } while (this.#again && this.#waiting.size > 0)
    this.#serving = false
    this.#wakeAt(nextUs)
  }

  async #serveOne(waiting: Waiting, empty: Set<string>): Promise<number> {
    try {
      const gone = (): boolean => !this.#waiting.has(waiting)
      const { jobs, nextWakeUs } = await waiting.tryClaim(empty, gone)
      if (gone()) {
        if (jobs.length === 0) return Infinity
        await waiting.giveBack(jobs)
        // A neighbour may have got nothing in the same claim.
        this.#again = true
      } else if (jobs.length > 0) waiting.answer(jobs)
      else for (const place of waiting.places) empty.add(place)
      return nextWakeUs ?? Infinity
    } catch (error) {
      waiting.fail(error)
      return Infinity
    }
  }

  #wakeAt(us: number): void {
    this.#timer?.cancel()
    if (this.#stopped || us === Infinity || this.#waiting.size === 0) return
    this.#timer = this.#clock.setTimer(() => this.wake(), Math.max(0, (us - this.#nowUs()) / 1000))
  }
}

/** Waiting fetches in order of arrival; those of one group that follow each other together. */
function neighboursOf(waiting: Iterable<Waiting>): Waiting[][] {
  const all: Waiting[][] = []
  for (const each of waiting) {
    const last = all.at(-1)
    if (last?.[0]?.group === each.group) last.push(each)
    else all.push([each])
  }
  return all
}
