import type { Clock, Timer } from '../../base/clock.ts'
import type { SluiceError } from '../../base/errors.ts'
import { renewed } from '../../base/renewed.ts'
import { asError } from '../../base/thrown.ts'
import { RateLimitRejected } from '../../jobs/handler-errors.ts'
import { isStrict } from '../../policy/limits/limit.ts'
import type { BucketName, BucketUse, Denied, Granted, UnitAnswer, UnitRequest } from '../contract/limiter.ts'
import type { Waits } from './backend-waits.ts'
import { type Closure, Line } from './line.ts'
import { OwnRequest } from './own-request.ts'
import type { Sharing } from './sharing.ts'
import { idOf, type LimiterLimits } from './uses.ts'
import { full, unknown, Waiter } from './waiter.ts'

/** The most requests of one line in one call of a backend. */
const MOST_REQUESTS = 100
/** Lines share a call up to so many requests: while a backend decides one call, this process reads the answers of another. */
const SHARED_REQUESTS = 50
/** A denial is remembered for at most so long: meanwhile another process may have opened the bucket. */
const REMEMBERED_US = 5_000_000
/** A line that waits for a permit of another process asks again after this time, and then after twice as long. */
const POLL_US = 5_000
const SLOWEST_POLL_US = 250_000
/** In this process every return of a permit is noticed, but the end of a lease is not. */
const LOCAL_POLL_US = 1_000_000
/** Old lines that a new one looks at: idle ones are forgotten. */
const LOOKED_AT = 2

/** The parts of the lines. */
export interface LinesOptions {
  readonly clock: Clock
  readonly limits: LimiterLimits
  readonly maxWaiting: number
  readonly leaseUs: number
  readonly isLocal: boolean
  /** Names the permits of this limiter, unlike those of any other. */
  readonly prefix: string
  readonly acquire: (requests: readonly UnitRequest[]) => Promise<readonly UnitAnswer[]>
  /** Asks for one start at once; null: the backend cannot say without a turn of the event loop. */
  readonly acquireNow: (request: UnitRequest) => UnitAnswer | null
  /** Gives back a grant that no caller uses. It resolves when the units are back, or the backend cannot tell. */
  readonly giveBack: (uses: readonly BucketUse[], granted: Granted) => Promise<void>
}

/** The lines of a limiter. Only the head of a line asks the backend, for as many as wait. */
export class Lines implements Waits {
  readonly #options: LinesOptions
  readonly #own: OwnRequest
  #lines = new Map<string, Line>()
  /** Lines that ask in this turn. */
  #ready: Line[] = []
  readonly #timers = new Map<Line, Timer>()
  /** Lines that wait for a permit, by the bucket that lacks it. */
  readonly #lacking = new Map<string, Set<Line>>()
  /** The part for a backend of several processes; null: the backend is local, or the code is not loaded. */
  #sharing: Sharing | null = null
  #loading: Promise<Sharing> | null = null
  #sweep: Iterator<Line> | null = null
  #waiting = 0
  #permits = 0
  #calls = 0
  #ended: SluiceError | null = null
  readonly #left = (): void => void this.#waiting--

  constructor(options: LinesOptions) {
    this.#options = options
    this.#own = new OwnRequest(options.leaseUs, options.prefix)
  }

  /** The number of calls that wait. */
  get waiting(): number {
    return this.#waiting
  }

  /** Takes the units at once where no other call waits for them; null: they are not there. */
  acquireNow(uses: readonly BucketUse[], priority: number): Granted | null {
    if (!this.#options.isLocal || this.#ended) return null
    const line = this.#lines.size === 0 ? undefined : this.#lines.get(idOfAll(uses))
    if (line && (line.waiters.length > 0 || line.closure)) return null
    const answer = this.#options.acquireNow(this.#own.of(uses, priority, ++this.#permits))
    return answer?.kind === 'granted' ? answer : null
  }

  /**
   * Waits for the units of some buckets.
   * @param waitUs 0: an answer at once; Infinity: without bound
   */
  acquire(uses: readonly BucketUse[], priority: number, waitUs: number, signal?: AbortSignal): Promise<Granted> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      if (this.#ended) throw this.#ended
      const nowUs = this.#options.clock.monotonicUs()
      const line = this.#lineOf(uses, nowUs)
      const closure = line.denialOf({ uses, priority }, nowUs)
      const untilUs = waitUs === 0 ? -Infinity : nowUs + waitUs
      if (closure && (waitUs === 0 || (closure.isExact && closure.opensUs > untilUs)))
        throw this.#rejected(closure, nowUs)
      if (this.#waiting >= this.#options.maxWaiting) throw full(this.#waiting)
      this.#waiting++
      const waiter = new Waiter(++this.#calls, uses, priority, untilUs, { resolve, reject, ended: this.#left })
      if (signal)
        waiter.follow(signal, () => {
          const held = this.#sharing?.held.leave(waiter)
          if (held) this.#return(this.#lineOf(uses, this.#options.clock.monotonicUs()), waiter, held)
          else line.leave(waiter)
        })
      if (line.join(waiter) || !line.isClosed(nowUs)) this.#wake(line)
      else this.#setTimer(line, nowUs)
    })
  }

  /** A permit of these buckets has returned: lines that lack one ask at once. */
  returned(buckets: readonly BucketName[]): void {
    for (const bucket of buckets)
      for (const line of this.#lacking.get(idOf(bucket)) ?? []) {
        line.polls = 0
        this.#wake(line)
      }
  }

  /** A limit has changed: its lines forget their denials. */
  changed(limit: string): void {
    for (const line of this.#lines.values()) if (line.uses.some((use) => use.limit === limit)) this.#wake(line)
  }

  /** Refuses all that wait, and every later call. */
  end(error: SluiceError): void {
    this.#ended = error
    this.#sharing?.held.end(error)
    for (const timer of this.#timers.values()) timer.cancel()
    this.#timers.clear()
    for (const line of this.#lines.values())
      for (const waiter of line.waiters) if (!waiter.settled) waiter.failed(error)
    this.#lines.clear()
    this.#ready = []
    this.#lacking.clear()
  }

  #lineOf(uses: readonly BucketUse[], nowUs: number): Line {
    const id = idOfAll(uses)
    const known = this.#lines.get(id)
    if (known) return known
    this.#forgetIdle(nowUs)
    const line = new Line(id, uses)
    this.#lines.set(id, line)
    return line
  }

  #forgetIdle(nowUs: number): void {
    for (let looked = 0; looked < LOOKED_AT; looked++) {
      this.#sweep ??= this.#lines.values()
      const next = this.#sweep.next()
      if (next.done === true) {
        this.#sweep = null
        this.#lines = renewed(this.#lines)
        return
      }
      if (next.value.isIdle(nowUs)) this.#remove(next.value)
    }
  }

  #remove(line: Line): void {
    this.#lines.delete(line.id)
    this.#forget(line)
  }

  /** Forgets the denial of a line. */
  #forget(line: Line): void {
    const { closure } = line
    if (!closure) return
    line.closure = null
    this.#timers.get(line)?.cancel()
    this.#timers.delete(line)
    if (closure.isExact) return
    const lacking = this.#lacking.get(idOf(closure.by))
    lacking?.delete(line)
    if (lacking?.size === 0) this.#lacking.delete(idOf(closure.by))
  }

  #wake(line: Line): void {
    if (this.#ended) return
    if (line.closure) this.#forget(line)
    line.stale = line.asking
    if (line.asking || line.returning > 0 || line.waiters.length === 0) return
    if (line.isReady) return
    line.isReady = true
    if (this.#ready.push(line) === 1) queueMicrotask(() => this.#ask())
  }

  /** Asks for the blocks of the lines that are ready, in one call. Lines beyond it get another one. */
  #ask(): void {
    const ready = this.#ready
    const most = this.#options.isLocal ? Infinity : SHARED_REQUESTS
    const blocks: (readonly [Line, readonly Waiter[]])[] = []
    const nowUs = this.#options.clock.monotonicUs()
    let asked = 0
    let taken = 0
    for (const line of ready) {
      const block = line.block(Math.min(MOST_REQUESTS, this.#sharing?.worthOf(line, nowUs) ?? Infinity))
      if (asked > 0 && asked + block.length > most) break
      taken++
      line.isReady = false
      if (block.length === 0) continue
      line.asking = true
      blocks.push([line, block])
      asked += block.length
    }
    this.#ready = ready.slice(taken)
    if (asked > 0) void this.#send(blocks)
    // A connection writes at the end of a turn, and a server answers together what it reads together: two calls of one
    // turn would leave it idle while this process reads the answers.
    if (this.#ready.length > 0) setImmediate(() => setImmediate(() => this.#ask()))
  }

  async #send(blocks: readonly (readonly [Line, readonly Waiter[]])[]): Promise<void> {
    if (!this.#options.isLocal) this.#sharing ??= await (this.#loading ??= this.#load())
    if (this.#ended) return
    const askedUs = this.#options.clock.monotonicUs()
    const requests = blocks.flatMap(([, block], line) => this.#requests(block, line, askedUs))
    let answers: readonly UnitAnswer[] = []
    let error: Error | null = null
    try {
      answers = await this.#options.acquire(requests)
    } catch (thrown) {
      error = asError(thrown)
    }
    const times = { askedUs, nowUs: this.#options.clock.monotonicUs() }
    let from = 0
    for (const [line, block] of blocks) {
      if (error !== null) for (const waiter of block) if (!waiter.settled) waiter.failed(error)
      const own = answers.slice(from, from + block.length)
      this.#answered(line, block, own, requests.slice(from, (from += block.length)), times)
    }
  }

  #requests(block: readonly Waiter[], line: number, nowUs: number): UnitRequest[] {
    const { leaseUs, prefix } = this.#options
    // Without the code that holds starts, none may be later than now.
    const lead = this.#sharing?.lateness.leadOf(block[0]?.uses ?? [], nowUs)
    const withinUs = this.#sharing?.shares.withinUs(block, nowUs, lead?.withinUs)
    return block.map(({ uses, priority, untilUs }, i) => ({
      uses,
      priority,
      line,
      permit: prefix + ++this.#permits,
      leaseUs,
      // Who wants an answer at once, or soon, must not get a start that is later.
      withinUs: Math.max(0, Math.min(withinUs?.[i] ?? 0, untilUs - nowUs)),
      // The answer takes about as long, so no caller waits longer for it.
      aheadUs: lead?.aheadUs ?? 0,
      caller: prefix,
    }))
  }

  #answered(
    line: Line,
    block: readonly Waiter[],
    answers: readonly UnitAnswer[],
    requests: readonly UnitRequest[],
    { askedUs, nowUs }: { readonly askedUs: number; readonly nowUs: number },
  ): void {
    const isStale = line.stale
    line.asking = false
    line.stale = false
    let denial: { readonly answer: Denied; readonly waiter: Waiter } | null = null
    this.#sharing?.lateness.took(requests, answers, askedUs, nowUs)
    for (let i = 0; i < answers.length; i++) {
      const [answer, waiter, request] = [answers[i], block[i], requests[i]]
      if (!answer || !waiter || !request) break
      if (answer.kind === 'granted') {
        line.polls = 0
        this.#sharing?.shares.took(waiter.uses, nowUs)
        const isLate = this.#sharing?.lateness.isLate(waiter, answer, nowUs)
        if (isLate || waiter.settled) this.#return(line, waiter, answer)
        else if ((request.aheadUs || request.withinUs) && this.#sharing?.held.hold(waiter, answer)) line.leave(waiter)
        else waiter.granted(answer)
      } else if (answer.kind === 'unknown') {
        if (!waiter.settled) waiter.failed(unknown(answer.limit))
      } else denial ??= { answer, waiter }
    }
    line.clear()
    line.pace = null
    if (this.#ended) return
    if (denial && !isStale && line.returning === 0) {
      const { answer, waiter } = denial
      const policy = this.#options.limits.policy(answer.by.limit)
      this.#sharing?.refused(line, answer, policy, answers.indexOf(answer), nowUs)
      this.#close(line, answer, waiter, nowUs)
    } else if (line.waiters.length > 0) this.#wake(line)
    // With no line there is nothing to look up: a call is decided at once.
    else if (!line.closure && line.returning === 0) this.#remove(line)
  }

  /** Gives back a start that no caller begins. Until it is back, its line asks for no other. */
  #return(line: Line, waiter: Waiter, granted: Granted): void {
    line.returning++
    void this.#options.giveBack(waiter.uses, granted).finally(() => {
      line.returning--
      this.#wake(line)
    })
  }

  async #load(): Promise<Sharing> {
    // A manual clock stands still meanwhile.
    const detach = this.#options.clock.attach?.({ pending: () => true, running: () => 0 })
    const { Sharing: Made } = await import('./sharing.ts')
    detach?.()
    const again = (waiter: Waiter, late: Granted): void => {
      const line = this.#lineOf(waiter.uses, this.#options.clock.monotonicUs())
      line.join(waiter)
      this.#return(line, waiter, late)
    }
    return new Made({ ...this.#options, again })
  }

  /** Remembers a denial, and refuses those that cannot wait as long. */
  #close(line: Line, { by, retryAfterUs }: Denied, denied: Waiter, nowUs: number): void {
    this.#forget(line)
    const isExact = retryAfterUs !== null
    const pauseUs = retryAfterUs ?? (this.#options.isLocal ? LOCAL_POLL_US : pollUs(line.polls++))
    const opensUs = nowUs + Math.max(1, pauseUs)
    const leadUs = (isExact && this.#sharing?.leadUs(line.uses, opensUs, nowUs)) || 0
    const againUs = Math.max(nowUs + 1, Math.min(opensUs - leadUs, nowUs + REMEMBERED_US))
    const closure = { opensUs, againUs, by, isExact, denied }
    for (const waiter of line.waiters)
      if (!waiter.settled && (waiter.untilUs <= nowUs || (isExact && waiter.untilUs < opensUs)))
        waiter.failed(this.#rejected(closure, nowUs))
    line.clear()
    line.closure = closure
    if (!isExact) {
      const lacking = this.#lacking.get(idOf(by)) ?? new Set()
      this.#lacking.set(idOf(by), lacking.add(line))
    }
    if (line.waiters.length > 0) this.#setTimer(line, nowUs)
  }

  /** Wakes a closed line when its time is over, or the patience of a waiter is. */
  #setTimer(line: Line, nowUs: number): void {
    const { closure } = line
    if (!closure) return
    this.#timers.get(line)?.cancel()
    let dueUs = closure.againUs
    if (!closure.isExact) for (const { untilUs } of line.waiters) dueUs = Math.min(dueUs, untilUs)
    const { clock, limits } = this.#options
    const delayMs = Math.max(0, dueUs - nowUs) / 1000
    const policy = limits.policy(closure.by.limit)
    const run = (): void => this.#due(line)
    const isFine = policy !== null && closure.isExact && isStrict(policy)
    this.#timers.set(line, (isFine && clock.setFineTimer?.(run, delayMs)) || clock.setTimer(run, delayMs))
  }

  #due(line: Line): void {
    this.#timers.delete(line)
    const nowUs = this.#options.clock.monotonicUs()
    const { closure } = line
    if (!closure) return
    for (const waiter of line.waiters)
      if (!waiter.settled && waiter.untilUs <= nowUs) waiter.failed(this.#rejected(closure, nowUs))
    line.clear()
    if (closure.againUs <= nowUs) this.#wake(line)
    else if (line.waiters.length > 0) this.#setTimer(line, nowUs)
  }

  #rejected({ by, opensUs, isExact }: Closure, nowUs: number): RateLimitRejected {
    const { clock, limits } = this.#options
    const expected = isExact ? new Date(clock.now() + (opensUs - nowUs) / 1000) : null
    return new RateLimitRejected(by.limit, by.key, expected, limits.policy(by.limit))
  }
}

function pollUs(polls: number): number {
  return Math.min(POLL_US * 2 ** Math.min(polls, 10), SLOWEST_POLL_US)
}

function idOfAll(uses: readonly BucketUse[]): string {
  const [first] = uses
  return uses.length === 1 && first ? idOf(first) : uses.map(idOf).join('\0')
}
