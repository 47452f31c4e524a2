import type { Clock } from '../../base/clock.ts'
import { type Duration, durationMs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { Gathered } from '../../base/gathered.ts'
import { checkOptions, checkText, show } from '../../base/options.ts'
import { isFinal, type JobState, STATES } from '../../jobs/job-state.ts'
import type { QueueCount, QueueRecord } from '../../store/contract/queues.ts'
import type { Store } from '../../store/contract/store.ts'
import { checkQueue } from '../define/call-options.ts'
import type { Wakeup } from '../events/wakeup.ts'

/** A queue of the store. */
export interface QueueView {
  readonly name: string
  /** No job of it starts, on any worker. */
  readonly paused: boolean
  /** Its jobs by state. */
  readonly jobs: Readonly<Record<JobState, number>>
  /** The most jobs that clients of a server may have stored in it before they start; null: any number. */
  readonly bound: number | null
  /** Live workers that serve it. */
  readonly workers: number
  /** The time of its first use; null: an earlier version stored it without. */
  readonly createdAt: Date | null
}

interface Hooks {
  readonly clock: Clock
  readonly store: () => Promise<Store>
  readonly wakeup: Wakeup
}

const MOST = 1_000_000_000
/** A drain looks again after this time even if the store reports no end. */
const LOOK_AGAIN_MS = 1_000
/** Between two counts of a queue that drains wait for, so many times as long as the first one took. */
const REST = 9

/** The queues of the store: look, pause, resume, bound and drain. */
export class QueuesApi {
  readonly #hooks: Hooks
  /** The counts of queues that drains wait for, with the number of these drains. */
  readonly #draining = new Map<string, { readonly left: Gathered<null, number>; drains: number }>()

  constructor(hooks: Hooks) {
    this.#hooks = hooks
  }

  /** All queues that were ever used or are served, by name. Their jobs are counted: not for a hot path. */
  async list(): Promise<QueueView[]> {
    const store = await this.#hooks.store()
    const [records, counts, workers] = [await store.queues(), await store.queueCounts(), await store.workers()]
    const serving = workers.filter(({ alive }) => alive).flatMap(({ queues }) => queues)
    const byQueue = Map.groupBy(counts, ({ queue }) => queue)
    const unused = [...new Set(serving)].filter((queue) => records.every(({ name }) => name !== queue))
    const all = [...records, ...unused.map((name) => ({ name, paused: false, bounds: null, createdUs: null }))]
    return all
      .map((each) => viewOf(each, byQueue.get(each.name) ?? [], serving.filter((name) => name === each.name).length))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** One queue; null: no job, worker or caller has ever named it. */
  async get(queue: string): Promise<QueueView | null> {
    checkText(queue, 'queues.get: the queue')
    return (await this.list()).find(({ name }) => name === queue) ?? null
  }

  /** Stops all starts of a queue, on all workers. What runs goes on. @throws {SluiceError} `queue.invalid` */
  pause(queue: string): Promise<void> {
    return this.#pause(queue, true)
  }

  /** Lets the jobs of a paused queue start again. @throws {SluiceError} `queue.invalid` */
  resume(queue: string): Promise<void> {
    return this.#pause(queue, false)
  }

  /**
   * Bounds how many jobs clients of a server may store in a queue before they start: beyond it a push is refused. The
   * jobs that engines enqueue count, and are not refused.
   * @param most 1 to 1,000,000,000; null lifts the bound
   * @throws {SluiceError} `queue.invalid`, `option.invalid`
   */
  async bound(queue: string, most: number | null): Promise<void> {
    if (most !== null && !(Number.isInteger(most) && most >= 1 && most <= MOST))
      throw new SluiceError(
        'option.invalid',
        `queues.bound: the bound is invalid: ${show(most)}. Expected 1 to 1,000,000,000, or null.`,
      )
    const store = await this.#hooks.store()
    await store.boundQueue(await knownQueue(store, queue), most === null ? null : { maxDepth: most, warnAt: null })
  }

  /**
   * Waits until no job of a queue waits or runs. It deletes nothing, and stops no arrivals. A queue that is paused, or
   * that no worker serves, does not become empty by itself.
   * @param options.timeout how long to wait; default: any time
   * @param options.signal ends the wait with the signal's reason
   * @throws {SluiceError} `queue.drain.timeout`, `queue.invalid`, `option.invalid`
   */
  async drain(
    queue: string,
    options: { readonly timeout?: Duration; readonly signal?: AbortSignal } = {},
  ): Promise<void> {
    checkOptions(options, ['timeout', 'signal'], 'queues.drain: the options')
    const { timeout, signal } = options
    if (signal !== undefined && !(signal instanceof AbortSignal))
      throw new SluiceError(
        'option.invalid',
        `queues.drain: signal is invalid: ${show(signal)}. Expected an AbortSignal.`,
      )
    const timeoutMs = timeout === undefined ? Infinity : durationMs(timeout, 'queues.drain: timeout')
    const { clock } = this.#hooks
    const store = await this.#hooks.store()
    const name = await knownQueue(store, queue)
    const untilMs = clock.now() + timeoutMs
    const draining = this.#drainingOf(store, name)
    draining.drains++
    try {
      for (;;) {
        signal?.throwIfAborted()
        const [jobs = 0] = await draining.left.add([null])
        if (jobs === 0) return
        if (clock.now() >= untilMs)
          throw new SluiceError(
            'queue.drain.timeout',
            `Queue ${name} still has jobs that wait or run (${jobs}). Wait longer, or look at sluice.queues.get('${name}').`,
          )
        await this.#wait(Math.min(LOOK_AGAIN_MS, untilMs - clock.now()), signal)
      }
    } finally {
      if (--draining.drains === 0) this.#draining.delete(name)
    }
  }

  /** Drains that ask while a count is on its way share the next one: a count takes time by the jobs of its queue. */
  #drainingOf(store: Store, name: string): { readonly left: Gathered<null, number>; drains: number } {
    const known = this.#draining.get(name)
    if (known) return known
    const { clock } = this.#hooks
    let restMs = 0
    const left = new Gathered(async (asked: readonly null[]) => {
      if (restMs > 0) await this.#wait(restMs, undefined)
      const beganUs = clock.monotonicUs()
      const counts = (await store.queueCounts(name)).filter(({ state }) => !isFinal(state))
      const jobs = counts.reduce((sum, each) => sum + each.jobs, 0)
      restMs = Math.min(LOOK_AGAIN_MS, (clock.monotonicUs() - beganUs) * (REST / 1000))
      return asked.map(() => jobs)
    })
    const draining = { left, drains: 0 }
    this.#draining.set(name, draining)
    return draining
  }

  async #pause(queue: string, paused: boolean): Promise<void> {
    const { store: open, wakeup } = this.#hooks
    const store = await open()
    await store.pauseQueue(await knownQueue(store, queue), paused)
    wakeup.notify('work')
  }

  /** Waits until a time has passed or the signal says so. */
  #wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
    const { clock } = this.#hooks
    return new Promise((resolve) => {
      const end = (): void => {
        timer.cancel()
        signal?.removeEventListener('abort', end)
        resolve()
      }
      const timer = clock.setTimer(end, ms)
      if (signal?.aborted) end()
      else signal?.addEventListener('abort', end)
    })
  }
}

/**
 * A queue on record, or a name that a queue may have. A server's queues have the names of their tenants before their own.
 * @param named its name for the caller @throws {SluiceError} `queue.invalid`
 */
export async function knownQueue(store: Store, queue: string, named: string = queue): Promise<string> {
  checkText(queue, 'The queue')
  if ((await store.queues()).every(({ name }) => name !== queue)) checkQueue(named)
  return queue
}

function viewOf(
  { name, paused, bounds, createdUs }: Pick<QueueRecord, 'name' | 'paused' | 'bounds' | 'createdUs'>,
  counts: readonly QueueCount[],
  workers: number,
): QueueView {
  const jobs = Object.fromEntries(
    STATES.map((state) => [state, counts.find((each) => each.state === state)?.jobs ?? 0]),
  ) as Record<JobState, number>
  return {
    name,
    paused,
    jobs,
    bound: bounds?.maxDepth ?? null,
    workers,
    createdAt: createdUs === null ? null : new Date(createdUs / 1000),
  }
}
