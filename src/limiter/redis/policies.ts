import { systemRandom } from '../../base/random.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { paceOf } from '../../policy/limits/pace.ts'
import { Timeline } from '../../policy/limits/timeline.ts'
import type { BucketName } from '../contract/limiter.ts'
import { kept, type LimitEvent } from '../ledger/changes.ts'
import { type AddedEvents, StoredPolicies } from '../ledger/stored-policies.ts'
import { listOf, type RedisScripts, scriptOf, textOf, wholeOf } from './client.ts'
import type { RedisKeys } from './keys.ts'
import { CalendarWindows, calendarName } from './calendar-windows.ts'
import { CHANGE } from './lua/embedded.ts'

const CHANGE_SCRIPT = scriptOf(CHANGE)
/** A plain HGETALL is an object in some clients, which loses a limit of the name __proto__. */
const ALL_SCRIPT = scriptOf("return redis.call('HGETALL', KEYS[1])")

/** The limits of a namespace in a hash, and beside it the policies as the script reads them. */
export class RedisPolicies extends StoredPolicies {
  readonly #scripts: RedisScripts
  readonly #keys: RedisKeys
  readonly #windows = new CalendarWindows()
  #events = new Map<string, readonly LimitEvent[]>()
  /** Names what was read; '': nothing. */
  generation = ''

  constructor(scripts: RedisScripts, keys: RedisKeys) {
    super()
    this.#scripts = scripts
    this.#keys = keys
  }

  /** Reads the limits again, unless they are of that generation. */
  override async read(generation: string | null = null): Promise<void> {
    if (generation === this.generation) return
    const fields = pairs(listOf(await this.#scripts.run(ALL_SCRIPT, [this.#keys.changes], [])))
    this.generation = fields.get('') ?? ''
    fields.delete('')
    this.#events = new Map([...fields].map(([name, text]) => [name, JSON.parse(text) as LimitEvent[]]))
    this.timelines = new Map([...this.#events].map(([name, events]) => [name, new Timeline(events)]))
  }

  /** The windows of the calendars of these buckets around an instant, for the script; '': they have none. */
  windows(names: readonly BucketName[], nowUs: number): string {
    return this.#windows.around(
      names.map(({ limit, key }) => this.timeline(limit).at(key).policy?.rule),
      nowUs,
    )
  }

  protected override async write(added: AddedEvents): Promise<boolean> {
    const generation = Math.floor(systemRandom.next() * 2 ** 52).toString(36)
    const changes: string[] = []
    const policies: string[] = []
    for (const [name, events] of added) {
      const all = kept([...(this.#events.get(name) ?? []), ...events])
      changes.push(name, JSON.stringify(all))
      policies.push(...compiled(name, new Timeline(all), this.timeline(name)))
    }
    const args = [this.generation, generation, ...changes, '', ...policies]
    return wholeOf(await this.#scripts.run(CHANGE_SCRIPT, [this.#keys.policies, this.#keys.changes], args)) === 1
  }
}

/** The fields of a limit for the script, and their values: its policy, and that of each key with changes of its own. */
function compiled(name: string, timeline: Timeline, before: Timeline): string[] {
  const keys = timeline.keys()
  const own = keys.length > 1
  const fields = keys.flatMap((key) => {
    const { policy, revision } = timeline.at(key)
    if (!policy) return []
    const ends = Number.isFinite(timeline.nextEndUs) ? { ends: timeline.nextEndUs } : {}
    return [key === null ? name : `${name}\0${key}`, JSON.stringify({ revision, ...ends, keys: own, ...plain(policy) })]
  })
  const gone = before.keys().filter((key) => key !== null && !keys.includes(key))
  return [...fields, ...gone.flatMap((key) => [`${name}\0${key}`, ''])]
}

/** A policy as the script reads it. It knows no time zones: each call carries the windows of calendars. */
function plain(policy: LimitPolicy): object {
  const { rule, spacing, concurrency, headroom } = policy
  const beside = {
    ...(spacing && { every: spacing.everyUs }),
    ...(concurrency !== null && { concurrency }),
    ...(headroom && { headroom }),
  }
  if (rule === null) return beside
  const { kind } = rule
  if (kind === 'spacing') return { ...beside, rule: { kind, every: rule.everyUs } }
  if (kind === 'sliding') return { ...beside, rule: { kind, max: rule.max, period: rule.periodUs } }
  if (kind === 'rate') {
    const { rate, periodUs: period, burst, startEmpty } = rule
    return { ...beside, rule: { kind, rate, period, burst, startEmpty } }
  }
  const { window, max, guardUs: guard } = rule
  if (window.align === 'epoch') return { ...beside, rule: { kind, max, period: window.periodUs, guard } }
  // Only how long a bucket is kept depends on this period.
  const period = paceOf(policy).periodUs
  // The script of earlier versions would take it for a window by the epoch. It leaves a slow one to its process.
  return { ...beside, slow: true, rule: { kind, max, period, guard, calendar: calendarName(window) } }
}

/** The fields of a hash, from the list of a script. */
function pairs(list: readonly unknown[]): Map<string, string> {
  const fields = new Map<string, string>()
  for (let i = 0; i < list.length; i += 2) fields.set(textOf(list[i]) ?? '', textOf(list[i + 1]) ?? '')
  return fields
}
