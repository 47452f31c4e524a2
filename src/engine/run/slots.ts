/** One queue that this process serves. */
export interface ServedQueue {
  readonly queue: string
  /** Jobs of it that run at once in this process. */
  readonly concurrency: number
}

/** The runs of one queue. */
interface Runs {
  readonly concurrency: number
  /** Claimed, and their handlers have not ended. */
  running: number
  /** Claimed, and their ends are not written. */
  held: number
}

/**
 * The slots of a worker's queues. A run leaves its slot when it ends, so that the claim for the next one shares the
 * commit of its end or runs beside it. A crash repeats the runs whose ends were not written yet. Of those a queue has
 * at most as many as slots, however slowly the store writes: the slots of more stay taken.
 */
export class SlotCounts {
  readonly #queues: ReadonlyMap<string, Runs>

  constructor(queues: readonly ServedQueue[]) {
    this.#queues = new Map(queues.map(({ queue, concurrency }) => [queue, { concurrency, running: 0, held: 0 }]))
  }

  /** How many more runs of a queue may begin. */
  free(queue: string): number {
    const runs = this.#queues.get(queue)
    return runs ? Math.max(0, Math.min(runs.concurrency - runs.running, 2 * runs.concurrency - runs.held)) : 0
  }

  /** Whether a run of any queue may begin. A process without queues promotes and fires for the others. */
  get hasRoom(): boolean {
    if (this.#queues.size === 0) return true
    for (const queue of this.#queues.keys()) if (this.free(queue) > 0) return true
    return false
  }

  /** A run was claimed. */
  claimed(queue: string): void {
    this.#add(queue, 1, 1)
  }

  /** A handler has ended, and its end is not written yet. */
  ended(queue: string): void {
    this.#add(queue, -1, 0)
  }

  /** A run that ended takes its slot again, until `ended` is called once more. */
  retaken(queue: string): void {
    this.#add(queue, 1, 0)
  }

  /** The end of a run was written or abandoned. */
  written(queue: string): void {
    this.#add(queue, 0, -1)
  }

  /** A claimed run was given back before it began. */
  givenBack(queue: string): void {
    this.#add(queue, -1, -1)
  }

  #add(queue: string, running: number, held: number): void {
    const runs = this.#queues.get(queue)
    if (!runs) return
    runs.running += running
    runs.held += held
  }
}

/** The room that the last claim was asked to fill, by queue, and what it has left of it. */
export class AskedRoom {
  readonly #slots = new Map<string, number>()
  readonly #ahead = new Map<string, number>()
  /** The queues with slots that came free since it was asked. */
  readonly #roomier = new Set<string>()

  /** A new claim is being asked. */
  begin(): void {
    this.#roomier.clear()
  }

  /** The claim is asked to fill these slots, so many of them with starts to hold. */
  ask(queue: string, slots: number, ahead: number): { readonly queue: string; slots: number; ahead: number } {
    this.#slots.set(queue, slots)
    this.#ahead.set(queue, ahead)
    return { queue, slots, ahead }
  }

  /** The claim has brought a start. */
  took(queue: string, isAhead: boolean): void {
    countDown(this.#slots, queue)
    if (isAhead) countDown(this.#ahead, queue)
  }

  /** A slot came free for which the claim under way was not asked. */
  roomier(queue: string): void {
    this.#roomier.add(queue)
  }

  /** Whether the claim has filled all slots of a queue that has more now: it may have left jobs for these. */
  get leftJobs(): boolean {
    return [...this.#roomier].some((queue) => (this.#slots.get(queue) ?? 0) <= 0)
  }

  /** Whether the claim may have left starts of a queue for want of room ahead. */
  leftStarts(queue: string): boolean {
    return (this.#ahead.get(queue) ?? 1) <= 0
  }

  /** Another claim is on its way to those starts. */
  follow(queue: string): void {
    this.#ahead.delete(queue)
  }
}

function countDown(counts: Map<string, number>, queue: string): void {
  counts.set(queue, (counts.get(queue) ?? 0) - 1)
}
