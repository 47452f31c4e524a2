import { type Ageing, NO_AGEING } from '../../policy/admission/ageing.ts'
import type { LimitDefinition, LimitPolicy } from '../../policy/limits/limit.ts'
import type { OverrideEvent, PolicyChange } from '../../policy/limits/override.ts'
import { type DefinitionEvent, Timeline } from '../../policy/limits/timeline.ts'
import type { SetAside } from '../contract/set-aside.ts'
import { parsed, policyOf } from './set-aside.ts'
import type { BucketUse } from '../contract/store.ts'

const UNDEFINED = new Timeline([])

/** A definition of a limit as both stores keep it. */
export type DefinitionRow = [name: string, revision: number, policy: string, version: number, since: number]
/** A change of a limit as both stores keep it. */
export type OverrideRow = [
  name: string,
  revision: number,
  kind: 'override' | 'pause',
  key: string | null,
  change: string | null,
  since: number,
  until: number | null,
  author: string | null,
  reason: string | null,
]

/** Nothing starts. */
const CLOSED: PolicyChange = { concurrency: 0 }

/**
 * The changes of all limits. An unreadable definition leaves its limit undefined until the next definition. An
 * unreadable override lets nothing start: no budget may be exceeded because of lost data.
 */
export function timelinesOf(
  definitions: readonly DefinitionRow[],
  overrides: readonly OverrideRow[],
): { readonly timelines: Map<string, Timeline>; readonly aside: SetAside[] } {
  const events = new Map<string, (DefinitionEvent | OverrideEvent)[]>()
  const lost = new Map<string, number>()
  const aside: SetAside[] = []
  const add = (name: string, event: DefinitionEvent | OverrideEvent): void => {
    const known = events.get(name)
    if (known) known.push(event)
    else events.set(name, [event])
  }
  for (const [name, revision, text, version, sinceUs] of definitions) {
    const policy = policyOf(text)
    if (policy) add(name, { kind: 'definition', revision, sinceUs, policy, version })
    else lost.set(name, Math.max(revision, lost.get(name) ?? 0))
  }
  for (const [name, revision, kind, key, text, sinceUs, untilUs, by, reason] of overrides) {
    const change = text === null ? null : parsed(text)
    const isChange = typeof change === 'object'
    if (!isChange) aside.push({ kind: 'override', name: key === null ? name : `${name} for ${key}` })
    add(name, {
      kind,
      revision,
      sinceUs,
      key,
      change: isChange ? change : CLOSED,
      untilUs,
      by,
      reason,
    })
  }
  const timelines = new Map<string, Timeline>()
  for (const name of new Set([...events.keys(), ...lost.keys()])) {
    const before = lost.get(name) ?? 0
    const known = (events.get(name) ?? []).filter((event) => event.revision > before)
    if (before > 0 && known.every((event) => event.kind !== 'definition')) aside.push({ kind: 'limit', name })
    timelines.set(
      name,
      new Timeline(
        known.sort((a, b) => a.revision - b.revision),
        before,
      ),
    )
  }
  return { timelines, aside }
}

/** The limits with all their changes, as they were read at one moment. */
export class Timelines {
  readonly #timelines: ReadonlyMap<string, Timeline>
  /** Numbers the changes of all limits together. */
  readonly generation: number
  /** The next automatic end of an override or pause of any limit; Infinity: there is none. */
  readonly nextEndUs: number

  /** The pace at which priorities age. */
  readonly ageing: Ageing

  /** The limits that code gave to queues as a whole, by queue. */
  readonly #queues: ReadonlyMap<string, readonly BucketUse[]>
  /** The unreadable parts of the limits. */
  readonly aside: readonly SetAside[]

  constructor(
    generation: number,
    timelines: ReadonlyMap<string, Timeline>,
    ageing: Ageing = NO_AGEING,
    queues: ReadonlyMap<string, readonly BucketUse[]> = new Map(),
    aside: readonly SetAside[] = [],
  ) {
    this.generation = generation
    this.ageing = ageing
    this.#queues = queues
    this.aside = aside
    this.#timelines = timelines
    let nextEndUs = Infinity
    for (const timeline of timelines.values()) nextEndUs = Math.min(nextEndUs, timeline.nextEndUs)
    this.nextEndUs = nextEndUs
  }

  /** A copy with one more change. */
  with(generation: number, name: string, event: DefinitionEvent | OverrideEvent): Timelines {
    const timelines = new Map(this.#timelines).set(name, this.timeline(name).with(event))
    return new Timelines(generation, timelines, this.ageing, this.#queues, this.aside)
  }

  /** The limits that every start of a queue needs. */
  usesOfQueue(queue: string): readonly BucketUse[] {
    return this.#queues.get(queue) ?? []
  }

  /** All changes of a limit; empty if it was never defined. */
  timeline(name: string): Timeline {
    return this.#timelines.get(name) ?? UNDEFINED
  }

  /** The policy in force for one key of a limit; null: the limit is not defined. */
  policy(name: string, key: string): LimitPolicy | null {
    return this.timeline(name).at(key).policy
  }

  /** The names of all limits, sorted. */
  names(): string[] {
    return [...this.#timelines.keys()].sort()
  }
}

/** The definition of every limit. */
export function definitionsIn(limits: Pick<Timelines, 'names' | 'timeline'>): LimitDefinition[] {
  return limits.names().flatMap((name) => {
    const { definition } = limits.timeline(name)
    return definition ? [{ name, policy: definition.policy, version: definition.version }] : []
  })
}
