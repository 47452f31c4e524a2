import { type Ageing, NO_AGEING } from '../../policy/admission/ageing.ts'
import { reserves } from '../../policy/limits/guarantee.ts'
import type { LimitDefinition, LimitPolicy } from '../../policy/limits/limit.ts'
import type { OverrideEvent, PolicyChange } from '../../policy/limits/override.ts'
import { type DefinitionEvent, Timeline } from '../../policy/limits/timeline.ts'
import type { SetAside } from '../contract/set-aside.ts'
import { column, columns } from './columns.ts'
import { parsed, policyOf } from './set-aside.ts'
import type { BucketUse } from '../contract/store.ts'

const UNDEFINED = new Timeline([])

/** A definition of a limit as both stores keep it. */
const DEFINITION = columns({
  name: column<string>(),
  revision: column<number>(),
  policy: column<string>(),
  version: column<number>(),
  sinceUs: column<number>('since'),
})

/** A change of a limit as both stores keep it. */
const OVERRIDE = columns({
  name: column<string>(),
  revision: column<number>(),
  kind: column<'override' | 'pause'>(),
  key: column<string | null>(),
  change: column<string | null>(),
  sinceUs: column<number>('since'),
  untilUs: column<number | null>('until'),
  by: column<string | null>('author'),
  reason: column<string | null>(),
})

/** The columns of a definition. */
export const DEFINITION_COLUMNS: string = DEFINITION.list
/** The columns of an override. */
export const OVERRIDE_COLUMNS: string = OVERRIDE.list

/** Nothing starts. */
const CLOSED: PolicyChange = { concurrency: 0 }

/**
 * The changes of all limits. An unreadable definition leaves its limit undefined until the next definition. An
 * unreadable override lets nothing start: no budget may be exceeded because of lost data.
 */
export function timelinesOf(
  definitions: readonly (readonly unknown[])[],
  overrides: readonly (readonly unknown[])[],
): { readonly timelines: Map<string, Timeline>; readonly aside: SetAside[] } {
  const events: { readonly name: string; readonly event: DefinitionEvent | OverrideEvent }[] = []
  const lost = new Map<string, number>()
  const aside: SetAside[] = []
  for (const { name, policy: text, ...rest } of definitions.map(DEFINITION.read)) {
    const policy = policyOf(text)
    if (policy) events.push({ name, event: { kind: 'definition', ...rest, policy } })
    else lost.set(name, Math.max(rest.revision, lost.get(name) ?? 0))
  }
  for (const { name, change: text, ...rest } of overrides.map(OVERRIDE.read)) {
    const change = text === null ? null : parsed(text)
    const isChange = typeof change === 'object'
    if (!isChange) aside.push({ kind: 'override', name: rest.key === null ? name : `${name} for ${rest.key}` })
    events.push({ name, event: { ...rest, change: isChange ? change : CLOSED } })
  }
  const timelines = new Map<string, Timeline>()
  const byName = Map.groupBy(events, ({ name }) => name)
  for (const name of new Set([...byName.keys(), ...lost.keys()])) {
    const before = lost.get(name) ?? 0
    const known = (byName.get(name) ?? []).map(({ event }) => event).filter(({ revision }) => revision > before)
    if (before > 0 && known.every((event) => event.kind !== 'definition')) aside.push({ kind: 'limit', name })
    known.sort((a, b) => a.revision - b.revision)
    timelines.set(name, new Timeline(known, before))
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
  #ofWorkers: boolean | null = null
  #elsewhere: readonly (readonly [limit: string, backend: string])[] | null = null

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
    this.#timelines = withReserves(timelines)
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

  /** Whether workers have budgets of their own: some limit has the scope `worker`. */
  get ofWorkers(): boolean {
    return (this.#ofWorkers ??= [...this.#timelines.values()].some((each) => each.at('').policy?.scope === 'worker'))
  }

  /** The limits whose budgets a backend keeps, each with its backend. */
  get elsewhere(): readonly (readonly [limit: string, backend: string])[] {
    return (this.#elsewhere ??= [...this.#timelines].flatMap(([name, each]) => {
      const { backend } = each.at('').policy ?? {}
      return backend === undefined ? [] : [[name, backend] as const]
    }))
  }

  /** The names of all limits, sorted. */
  names(): string[] {
    return [...this.#timelines.keys()].sort()
  }
}

/** The limits, of which each that is common to others keeps units for their guarantees. */
function withReserves(timelines: ReadonlyMap<string, Timeline>): ReadonlyMap<string, Timeline> {
  const units = reserves([...timelines.values()].map(({ definition }) => definition?.policy))
  const differ = [...timelines].filter(([name, { reserve }]) => reserve !== (units.get(name) ?? 0))
  if (differ.length === 0) return timelines
  return new Map([...timelines, ...differ.map(([name, each]) => [name, each.keeping(units.get(name) ?? 0)] as const)])
}

/** The definition of every limit. */
export function definitionsIn(limits: Pick<Timelines, 'names' | 'timeline'>): LimitDefinition[] {
  return limits.names().flatMap((name) => {
    const { definition } = limits.timeline(name)
    return definition ? [{ name, policy: definition.policy, version: definition.version }] : []
  })
}
