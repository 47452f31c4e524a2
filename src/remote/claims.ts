import type { Clock } from '../base/clock.ts'
import { persist } from '../base/persist.ts'
import { knownTasks } from '../store/contract/known-tasks.ts'
import type { JobDetails } from '../store/contract/remote-jobs.ts'
import type { Taker } from '../store/contract/remote-claims.ts'
import type { Claim, Store } from '../store/contract/store.ts'
import { WaitingFetches, type ClaimTry } from './waiting-fetches.ts'
import { FetchRoom } from './fetch-room.ts'
import { type FetchedJob, type FetchTaker, type JoinedClaim, JoinedClaims } from './joined-claims.ts'
import type { Figures } from '../engine/events/figures.ts'
import type { Wakeup } from '../engine/events/wakeup.ts'
import type { Budgets } from '../engine/run/budgets.ts'
import type { LostClaims } from './lost-claims.ts'
import type { Reporter } from '../engine/run/report.ts'

/** A remote fetch. */
export interface RemoteFetch {
  /** The name of the worker. */
  readonly worker: string
  /** From left to right: a queue is claimed only when those before it are empty. */
  readonly queues: readonly string[]
  /** The tasks whose jobs the worker takes; absent: any. */
  readonly tasks?: readonly string[]
  readonly count: number
  /** The lease of jobs without a lease of their own, in µs. A forced lease overrides both. */
  readonly leaseUs: number
  readonly waitMs: number
  /** The fetch takes no more jobs once its payloads have this many bytes; default: no bound. */
  readonly bytes?: number
  readonly signal?: AbortSignal | undefined
}

/** How often one fetch that finds nothing else asks backends for units. */
const BACKENDS_ASKED = 2

/** One fetch, and its place among all. */
interface Caller {
  readonly store: Store
  readonly worker: number
  readonly request: RemoteFetch
  readonly arrival: number
}

/** The engine's parts that claims for remote workers use. */
export interface RemoteClaimsHooks {
  readonly clock: Clock
  readonly newId: () => string
  readonly lost: LostClaims
  readonly wakeup: Wakeup
  readonly figures: Figures
  readonly reporter: () => Reporter | null
  /** The budgets that backends keep; null: there are none. */
  readonly budgets: () => Budgets | null
}

/** Claims for remote workers: like any claim, but queue after queue, and with a wait for work. */
export class RemoteClaims {
  readonly #hooks: RemoteClaimsHooks
  readonly #joined = new JoinedClaims()
  #waiting: WaitingFetches | null = null
  #unsubscribe: (() => void) | null = null
  #stopped = false
  #arrivals = 0

  constructor(hooks: RemoteClaimsHooks) {
    this.#hooks = hooks
  }

  /** Takes jobs, or waits for some. Jobs taken for a disconnected caller are given back. */
  async fetch(store: Store, worker: number, request: RemoteFetch): Promise<readonly FetchedJob[]> {
    const { queues, waitMs, signal } = request
    const place = placesOf(request)
    const caller: Caller = { store, worker, request, arrival: ++this.#arrivals }
    const giveBack = (jobs: readonly FetchedJob[]): Promise<void> => this.giveBack(store, worker, request.leaseUs, jobs)
    await this.#hooks.lost.settle(worker)
    const { jobs } = await this.#claim(caller, new Set(), () => signal?.aborted === true)
    const waits = jobs.length === 0 && waitMs > 0 && !this.#stopped
    const got = waits
      ? await this.#waitingOn(store).wait({
          group: groupOf(request, queues.map(place)),
          places: queues.map(place),
          waitMs,
          signal,
          giveBack,
          tryClaim: (empty, gone) => this.#claim(caller, empty, gone),
        })
      : jobs
    if (!signal?.aborted || got.length === 0) return got
    await giveBack(got)
    return []
  }

  /** Gives back claimed jobs that no worker has received: another may start them, or what waits for their permits. */
  async giveBack(store: Store, worker: number, leaseUs: number, jobs: readonly FetchedJob[]): Promise<void> {
    const runs = jobs.map(({ run }) => run)
    for (const run of runs) this.#hooks.budgets()?.giveBack(run)
    await persist(this.#hooks.clock, leaseUs / 1000, () => store.release(worker, runs))
    this.#hooks.wakeup.notify('work')
  }

  /** Makes waiting fetches try again: a job may start that could not before. */
  wake(): void {
    this.#waiting?.wake()
  }

  /** Answers all waiting fetches with no jobs. */
  stop(): void {
    this.#stopped = true
    this.#unsubscribe?.()
    this.#waiting?.stop()
  }

  #waitingOn(store: Store): WaitingFetches {
    if (this.#waiting) return this.#waiting
    const { clock, wakeup } = this.#hooks
    const waiting = (this.#waiting = new WaitingFetches(clock, () => store.nowUs()))
    this.#unsubscribe = wakeup.subscribe((reason) => {
      if (reason === 'work' || reason === 'permits' || reason === 'settled') waiting.wake()
    })
    return waiting
  }

  async #claim(caller: Caller, empty: ReadonlySet<string>, gone: () => boolean): Promise<ClaimTry> {
    const { worker, request, arrival } = caller
    const { reporter } = this.#hooks
    const place = placesOf(request)
    const jobs: FetchedJob[] = []
    let nextWakeUs: number | null = null
    const room = new FetchRoom(request.count, request.bytes ?? Infinity)
    for (const queue of request.queues) {
      if (empty.has(place(queue))) continue
      for (let slots = room.next; slots > 0; slots = room.next) {
        const joining = this.#joined.join(groupOf(request, [place(queue)]), {
          taker: { worker, name: request.worker, slots },
          arrival,
          gone,
          claim: (takers) => this.#claimOne(caller, queue, takers),
        })
        // Jobs taken before a failed claim are still handed out.
        const claim = await joining.catch((error: unknown) => {
          if (jobs.length === 0) throw error
          return null
        })
        if (!claim) return { jobs, nextWakeUs }
        for (const { run } of claim.jobs) reporter()?.started(run)
        jobs.push(...claim.jobs)
        room.take(claim.jobs)
        if (claim.nextWakeUs !== null) nextWakeUs = Math.min(nextWakeUs ?? Infinity, claim.nextWakeUs)
        if (claim.jobs.length < slots) break
      }
    }
    return { jobs, nextWakeUs }
  }

  /** Claims for several workers that ask for the same: for each as many jobs as it has slots. */
  async #claimOne(
    caller: Caller,
    queue: string,
    asked: () => readonly FetchTaker[],
    tries = BACKENDS_ASKED,
  ): Promise<JoinedClaim> {
    const { store, request } = caller
    const { leaseUs, tasks } = request
    const { budgets, clock, figures, newId, lost, reporter } = this.#hooks
    const loan = budgets()?.lend(true)
    const claimIds = new Map<FetchTaker, string>()
    const claimIdOf = (taker: FetchTaker): string => {
      const claimId = claimIds.get(taker) ?? newId()
      claimIds.set(taker, claimId)
      return claimId
    }
    let takers: readonly Taker[] = []
    let claim: Claim
    const beganUs = clock.monotonicUs()
    try {
      claim = await store.claim(() => {
        takers = asked().map((taker) => ({ ...taker, claimId: claimIdOf(taker) }))
        return {
          worker: takers[0]?.worker ?? 0,
          leaseUs,
          remote: true,
          ...(loan && { elsewhere: loan.terms() }),
          takers,
          ...(tasks && { tasks }),
          queues: [{ queue, slots: takers.reduce((sum, { slots }) => sum + slots, 0) }],
        }
      })
      figures.claim(false, beganUs, clock.monotonicUs())
    } catch (error) {
      figures.claim(true, beganUs, clock.monotonicUs())
      loan?.lose()
      for (const [{ worker }, claimId] of claimIds) lost.add(store, worker, claimId, leaseUs)
      throw error
    }
    loan?.settle(claim)
    reporter()?.claimed(claim)
    if (claim.jobs.length > 0) await budgets()?.due(claim.jobs)
    // A fetch that does not wait would never come when its starts are paid.
    if (claim.wanted && claim.jobs.length === 0 && tries > 0) {
      await budgets()?.answered()
      return this.#claimOne(caller, queue, asked, tries - 1)
    }
    const { jobs, details = [], nextWakeUs } = claim
    let dealt = 0
    const shares = takers.slice(0, claim.served).map(({ slots }) => {
      const runs = jobs.slice(dealt, dealt + slots)
      const share = runs.map((run, n): FetchedJob => ({ run, job: details[dealt + n] as JobDetails }))
      dealt += slots
      return share
    })
    return { shares, nextWakeUs }
  }
}

/** Names the fetches that may share a claim. */
function groupOf({ leaseUs }: RemoteFetch, places: readonly string[]): string {
  return places.length === 1 ? `${leaseUs} ${places[0]}` : JSON.stringify([leaseUs, places])
}

/** Names a queue among the empty ones: it may be empty for these tasks only. */
function placesOf({ tasks }: RemoteFetch): (queue: string) => string {
  const known = knownTasks(tasks)
  return (queue) => (known ? `${queue} ${known.name}` : queue)
}
