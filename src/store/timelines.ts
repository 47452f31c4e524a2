import { type Ageing, NO_AGEING } from '../policy/ageing.ts'
import type { LimitPolicy } from '../policy/limit.ts'
import type { OverrideEvent } from '../policy/override.ts'
import { type DefinitionEvent, Timeline } from '../policy/timeline.ts'
import type { BucketUse } from './store.ts'

const UNDEFINED = new Timeline([])

/** The limits with all their changes, as they were read at one moment. */
export class Timelines {
  readonly #timelines: ReadonlyMap<string, Timeline>
  /** Numbers the changes of all limits together. */
  readonly generation: number
  /** When the next override or pause of any limit ends by itself; Infinity: none does. */
  readonly nextEndUs: number

  /** The pace at which priorities age. */
  readonly ageing: Ageing

  /** The limits that code gave to queues as a whole, by queue. */
  readonly #queues: ReadonlyMap<string, readonly BucketUse[]>

  constructor(
    generation: number,
    timelines: ReadonlyMap<string, Timeline>,
    ageing: Ageing = NO_AGEING,
    queues: ReadonlyMap<string, readonly BucketUse[]> = new Map(),
  ) {
    this.generation = generation
    this.ageing = ageing
    this.#queues = queues
    this.#timelines = timelines
    let nextEndUs = Infinity
    for (const timeline of timelines.values()) nextEndUs = Math.min(nextEndUs, timeline.nextEndUs)
    this.nextEndUs = nextEndUs
  }

  /** @param events of any limits, in any order. */
  static of(
    generation: number,
    events: Iterable<readonly [name: string, event: DefinitionEvent | OverrideEvent]>,
    ageing: Ageing,
    queues: ReadonlyMap<string, readonly BucketUse[]>,
  ): Timelines {
    const byName = new Map<string, (DefinitionEvent | OverrideEvent)[]>()
    for (const [name, event] of events) {
      const known = byName.get(name)
      if (known) known.push(event)
      else byName.set(name, [event])
    }
    const timelines = new Map<string, Timeline>()
    for (const [name, all] of byName) timelines.set(name, new Timeline(all.sort((a, b) => a.revision - b.revision)))
    return new Timelines(generation, timelines, ageing, queues)
  }

  /** These and one change more. */
  with(generation: number, name: string, event: DefinitionEvent | OverrideEvent): Timelines {
    const timelines = new Map(this.#timelines).set(name, this.timeline(name).with(event))
    return new Timelines(generation, timelines, this.ageing, this.#queues)
  }

  /** The limits that every start of a queue needs. */
  usesOfQueue(queue: string): readonly BucketUse[] {
    return this.#queues.get(queue) ?? []
  }

  /** All changes of a limit; none of one that nobody has defined. */
  timeline(name: string): Timeline {
    return this.#timelines.get(name) ?? UNDEFINED
  }

  /** What holds for one key of a limit; null: the limit is not defined. */
  policy(name: string, key: string): LimitPolicy | null {
    return this.timeline(name).at(key).policy
  }

  /** The names of all limits, sorted. */
  names(): string[] {
    return [...this.#timelines.keys()].sort()
  }
}
