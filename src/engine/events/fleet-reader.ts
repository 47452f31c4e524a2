import { randomUUID } from 'node:crypto'
import type { Clock } from '../../base/clock.ts'
import { isFinal, mayPass, SluiceError } from '../../base/errors.ts'
import { pauseAfter } from '../../base/persist.ts'
import type { Trouble } from '../../base/trouble.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Events } from './events.ts'
import { emitChange, type FleetEvents } from './fleet-events.ts'
import type { Wakeup } from './wakeup.ts'

const LEASE_US = 30_000_000
/** The lease is extended at this interval, and after this many changes, so that what was read is soon deleted. */
const KEEP_EVERY_US = 5_000_000
const KEEP_AFTER = 1000
/** The shortest time between two reads, and the longest. */
const GAP_MS = 25
const IDLE_MS = 1000
const FIRST_PAUSE_MS = 50
const WHAT = 'reading the events of the fleet'

/** The parts of a reader. */
export interface FleetReaderOptions {
  readonly clock: Clock
  readonly trouble: Trouble
  readonly wakeup: Wakeup
  /** Opens the store. */
  readonly store: () => Promise<Store>
  /** The listeners of the fleet's events. */
  readonly events: Events<FleetEvents>
  /** The events of this process: lost ones are an event of it. */
  readonly local: Pick<Events, 'emit'>
}

/** Reads the events of the fleet for all listeners of one engine, from the first of them to the last. */
export class FleetReader {
  readonly ended: Promise<void>
  readonly #options: FleetReaderOptions
  readonly #id = randomUUID()
  #ready = unsettled()
  #position: string | null = null
  /** The wall time of the last read. */
  #readMs = 0
  #keptUs = 0
  #unkept = 0
  #isLossTold = false
  #isStopping = false
  #isWoken = false
  #wake: () => void = ignore

  constructor(options: FleetReaderOptions) {
    this.#options = options
    this.ended = this.#run()
  }

  /** Resolves once changes are written. It rejects if the store refuses, or if the reader ends before. */
  get ready(): Promise<void> {
    return this.#ready.promise
  }

  /** Delivers what has happened until now, and ends. */
  stop(): Promise<void> {
    this.#isStopping = true
    this.#woken()
    return this.ended
  }

  async #run(): Promise<void> {
    let store: Store | null = null
    const unwatch: (() => void)[] = []
    for (let failures = 0; !this.#isStopping;) {
      try {
        store ??= await this.#options.store()
        if (unwatch.length === 0)
          unwatch.push(
            store.watch(() => this.#woken()),
            this.#options.wakeup.subscribe(() => this.#woken()),
          )
        const found = await this.#step(store)
        failures = 0
        this.#options.trouble.over(WHAT)
        await this.#pause(found > 0 ? GAP_MS : IDLE_MS)
      } catch (error) {
        this.#options.trouble.failed(WHAT, error)
        if (this.#readMs === 0 && !mayPass(error)) this.#refused(error)
        if (isFinal(error)) break
        await this.#sleep(pauseAfter(++failures, FIRST_PAUSE_MS), () => this.#isStopping)
      }
    }
    for (const stop of unwatch) stop()
    if (store) await this.#leave(store).catch((error: unknown) => this.#options.trouble.failed(WHAT, error))
    this.#ready.reject(new SluiceError('engine.stopped', 'The subscription ended before it held. Create a new engine.'))
  }

  /** Joins the readers, or reads once. Returns the number of changes; 1 to come again soon. */
  async #step(store: Store): Promise<number> {
    const { clock } = this.#options
    if (this.#position === null) {
      const joined = await store.joinEvents(this.#id, LEASE_US)
      // Others' transactions are open.
      if (joined === null) return 1
      this.#position = joined
      this.#keptUs = clock.monotonicUs()
      if (this.#readMs > 0) this.#lost()
      this.#readMs = clock.now()
      this.#ready.resolve()
    }
    const found = await this.#read(store, this.#position)
    const isDue = clock.monotonicUs() - this.#keptUs >= KEEP_EVERY_US
    if (this.#unkept >= KEEP_AFTER || isDue) await this.#keep(store)
    return found
  }

  async #read(store: Store, from: string): Promise<number> {
    const { clock, events } = this.#options
    const nowMs = clock.now()
    const { changes, position, isCut } = await store.readEvents(from)
    if (isCut) this.#lost()
    this.#position = position
    this.#readMs = nowMs
    this.#unkept += changes.length
    for (const change of changes) emitChange(change, events)
    return changes.length
  }

  async #keep(store: Store): Promise<void> {
    if (this.#position === null) return
    const kept = await store.keepEvents(this.#id, this.#position, LEASE_US)
    this.#keptUs = this.#options.clock.monotonicUs()
    this.#unkept = 0
    if (kept === 'gone') this.#position = null
    else if (kept === 'behind' && !this.#isLossTold) this.#lost()
    this.#isLossTold = false
  }

  async #leave(store: Store): Promise<void> {
    if (this.#position !== null) await this.#read(store, this.#position)
    await store.leaveEvents(this.#id)
  }

  /** Tells all who wait. The reader goes on: someone may mend the store, and later subscriptions wait for that. */
  #refused(error: unknown): void {
    this.#ready.reject(error)
    this.#ready = unsettled()
  }

  #lost(): void {
    this.#isLossTold = true
    const lost = { since: new Date(this.#readMs) }
    this.#options.events.emit('events.lost', lost)
    this.#options.local.emit('events.lost', lost)
  }

  #woken(): void {
    this.#isWoken = true
    this.#wake()
  }

  /** Pauses for `ms`, or for the gap if something may have happened. */
  async #pause(ms: number): Promise<void> {
    await this.#sleep(GAP_MS, () => this.#isStopping)
    if (ms > GAP_MS) await this.#sleep(ms - GAP_MS, () => this.#isWoken)
    this.#isWoken = false
  }

  /** Sleeps until the time is over or a wakeup finds that it is enough. */
  async #sleep(ms: number, isEnough: () => boolean): Promise<void> {
    if (isEnough()) return
    await new Promise<void>((resolve) => {
      const timer = this.#options.clock.setTimer(resolve, ms)
      this.#wake = () => {
        if (!isEnough()) return
        timer.cancel()
        resolve()
      }
    })
    this.#wake = ignore
  }
}

/** A promise that may be rejected while nothing waits for it. */
function unsettled(): PromiseWithResolvers<void> {
  const made = Promise.withResolvers<void>()
  made.promise.catch(ignore)
  return made
}

function ignore(): void {
  // Nothing waits.
}
