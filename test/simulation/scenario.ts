// One random history, drawn from its seed before anything runs: limits, queues, tasks, and what happens when.
import { type Random, seededRandom } from '../../src/base/random.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'
import type { PolicyChange } from '../../src/policy/limits/override.ts'
import type { ReferenceChange, ReferencePolicy } from './reference.ts'

export interface LimitSpec {
  readonly name: string
  readonly policy: Policy
  readonly reference: ReferencePolicy
  /** Most units that one start may cost. */
  readonly most: number
  readonly keyed: boolean
  /** The definitions of later deployments, oldest first; empty: overrides change its numbers instead. */
  readonly later: readonly LimitSpec[]
}

export interface Use {
  readonly limit: LimitSpec
  /** Empty for a limit without keys. */
  readonly key: string
  readonly weight: number
}

export interface QueueSpec {
  readonly name: string
  readonly concurrency: number
  readonly uses: readonly Use[]
  /** Which engines serve it, by their place in the fleet. */
  readonly servedBy: readonly number[]
}

export interface JobSpec {
  /** The name of the job in its input. */
  readonly n: number
  readonly queue: string
  readonly uses: readonly Use[]
  readonly priority: number
  readonly delayMs: number | null
  /**
   * It has to start within this time; never in a scenario that steps the wall clock, since expiry follows that clock.
   */
  readonly expiresMs: number | null
  readonly unique: { readonly key: string; readonly onConflict: 'ignore' | 'reject' | 'replace' | 'update' } | null
}

/** Recurring work, with the clock of its grid. */
export interface SeriesSpec {
  readonly name: string
  /** The name that its jobs have; no other jobs have it. */
  readonly n: number
  readonly kind: 'every' | 'cron'
  readonly everyMs: number
  readonly immediately: boolean
  readonly overlap: 'skip' | 'allow'
  readonly onMissed: 'skip' | 'catchUp'
  readonly maxRuns: number | null
  /** From the registration on. */
  readonly untilMs: number | null
  /** Occurrences may come too late for what they need. */
  readonly mayBeLate: boolean
  readonly job: JobSpec
}

/** One change of a limit, as the engine and the reference get it. */
export interface LimitChange {
  readonly limit: LimitSpec
  /** Null: all keys. */
  readonly key: string | null
  readonly change: PolicyChange
  readonly reference: ReferenceChange
  readonly forMs: number | null
}

/** How one engine falls silent. */
export type Crash = 'idle' | 'after-claim' | 'before-settle' | 'after-settle' | 'after-enqueue'

export type Action = { readonly atUs: number } & (
  | { readonly kind: 'enqueue'; readonly jobs: readonly JobSpec[]; readonly engine: number }
  | { readonly kind: 'cancel'; readonly pick: number; readonly engine: number }
  | { readonly kind: 'crash'; readonly how: Crash; readonly engine: number }
  | { readonly kind: 'stop'; readonly withinMs: number; readonly engine: number }
  | { readonly kind: 'start' }
  | { readonly kind: 'silence'; readonly engine: number; readonly forUs: number }
  | { readonly kind: 'step'; readonly byMs: number }
  | ({ readonly kind: 'override'; readonly engine: number } & LimitChange)
  | ({ readonly kind: 'pause'; readonly engine: number } & Pick<LimitChange, 'limit' | 'key' | 'forMs'>)
  | {
      readonly kind: 'end'
      readonly engine: number
      readonly of: 'override' | 'pause'
      readonly limit: LimitSpec
      readonly key: string | null
    }
  | {
      readonly kind: 'penalize'
      readonly engine: number
      readonly limit: LimitSpec
      readonly key: string
      readonly forMs: number
    }
  | {
      readonly kind: 'charge'
      readonly engine: number
      readonly limit: LimitSpec
      readonly key: string
      readonly units: number
    }
  | { readonly kind: 'deploy'; readonly engine: number; readonly limit: LimitSpec; readonly version: number }
  | { readonly kind: 'schedule'; readonly engine: number; readonly series: SeriesSpec }
  | { readonly kind: 'unschedule'; readonly engine: number; readonly name: string }
)

export interface Scenario {
  readonly seed: number
  readonly engines: number
  /** How far ahead each engine is granted starts, in ms; empty: none of them. */
  readonly aheadMs: readonly number[]
  readonly limits: readonly LimitSpec[]
  readonly queues: readonly QueueSpec[]
  readonly attempts: number
  readonly retryDelayMs: number
  readonly timeoutMs: number | null
  readonly leaseMs: number
  readonly actions: readonly Action[]
}

/** The behaviour of a run. */
export interface Behaviour {
  readonly lastsMs: number
  readonly end: 'return' | 'throw' | 'refused' | 'fatal'
  readonly retryAfterMs: number
  /** Goes on when its signal is aborted for a lost lease or a stop. */
  readonly deaf: boolean
}

/** The behaviour of attempt `attempt` of job `n`. */
export function behaviourOf(seed: number, n: number, run: number): Behaviour {
  const draw = new Draw(seededRandom(seed * 7919 + n * 104_729 + run * 1_299_709))
  return {
    lastsMs: draw.chance(0.25)
      ? 0
      : draw.chance(0.2)
        ? draw.int(500, 6000)
        : draw.int(1, 300) + draw.int(0, 999) / 1000,
    end: draw.pick(['return', 'return', 'return', 'return', 'return', 'return', 'throw', 'throw', 'refused', 'fatal']),
    retryAfterMs: draw.int(1, 1500),
    deaf: draw.chance(0.5),
  }
}

/** @param ahead engines are granted starts ahead */
export function scenarioOf(seed: number, ahead = false): Scenario {
  const draw = new Draw(seededRandom(seed))
  const engines = draw.chance(0.5) ? 1 : draw.int(2, 4)
  const changing = draw.chance(0.5)
  const limits = Array.from({ length: draw.int(1, 4) }, (_, i) => limitOf(draw, `l${i}`, changing))
  const keys = draw.int(1, 5)
  const use = (limit: LimitSpec): Use => ({
    limit,
    key: limit.keyed ? `k${draw.int(1, keys)}` : '',
    weight: draw.chance(0.4) ? draw.int(1, limit.most) : 1,
  })
  const queues = Array.from({ length: draw.chance(0.6) ? 1 : 2 }, (_, i) => ({
    name: i === 0 ? 'default' : `q${i}`,
    concurrency: draw.pick([1, 2, 3, 5, 10, 40]),
    servedBy: Array.from({ length: engines }, (_, engine) => engine).filter(
      (engine) => i === 0 || engine === 0 || draw.chance(0.6),
    ),
    uses: draw.chance(0.2) ? [{ ...use(limitOf(draw, `queue${i}`, changing)), weight: 1 }] : [],
  }))
  const all = [...limits, ...queues.flatMap((queue) => queue.uses.map((each) => each.limit))]
  const jobs = actionsOf(draw, engines, limits, queues, use)
  const lastUs = jobs.at(-1)?.atUs ?? 0
  const control = changing ? controlOf(draw, all, keys, lastUs) : []
  const series = draw.chance(0.35) ? seriesOf(draw, limits, queues, use, lastUs) : []
  const actions = [...jobs, ...control, ...series].sort((a, b) => a.atUs - b.atUs)
  return {
    seed,
    engines,
    aheadMs: ahead ? aheadOf(seed, engines) : [],
    limits: all,
    queues,
    attempts: draw.int(1, 4),
    retryDelayMs: draw.pick([0, 40, 300]),
    timeoutMs: draw.chance(0.2) ? draw.int(100, 1000) : null,
    leaseMs: draw.pick([1000, 3000, 9000]),
    actions,
  }
}

/** Drawn apart, so that a seed is the same history without it. Engines of one fleet may look differently far. */
function aheadOf(seed: number, engines: number): number[] {
  const draw = new Draw(seededRandom(seed * 15_485_863))
  const drawn = Array.from({ length: engines }, () => draw.pick([0, 5, 20, 50]))
  return drawn.some((ms) => ms > 0) ? drawn : drawn.map(() => 20)
}

/** A limit, and, where limits change, sometimes its later definitions: of any kind, with room for every job. */
function limitOf(draw: Draw, name: string, changing: boolean): LimitSpec {
  const first = policyOf(draw, name)
  if (!changing || draw.chance(0.6)) return first
  const later: LimitSpec[] = []
  for (let left = draw.int(1, 3); left > 0; left--) {
    const next = policyOf(draw, name)
    later.push({ ...next, keyed: first.keyed })
  }
  // No definition refuses what another one took: every job fits all of them.
  const most = Math.min(first.most, ...later.map((each) => each.most))
  return { ...first, most, later }
}

function policyOf(draw: Draw, name: string): LimitSpec {
  const concurrency = draw.chance(0.25) ? draw.int(1, 4) : null
  const guardMs = draw.chance(0.3) ? draw.int(1, 50) : 0
  const freeRetries = draw.chance(0.25)
  const perMs = draw.pick([7, 50, 100, 333, 1000, 2500])
  const units = draw.int(1, 12)
  const common = {
    ...(guardMs > 0 ? { guard: guardMs } : {}),
    ...(freeRetries ? { retries: 'free' as const } : {}),
  }
  const permits = concurrency === null ? {} : { concurrency }
  const keyed = draw.chance(0.6)
  const reference = { concurrency, guardUs: guardMs * 1000, freeRetries }
  const perUs = perMs * 1000
  const kind = draw.pick(['rate', 'rate', 'sliding', 'sliding', 'fixed', 'spacing', 'concurrency'])
  if (kind === 'rate') {
    const burst = draw.int(1, 12)
    const startEmpty = draw.chance(0.2)
    return {
      name,
      policy: { rate: units, per: perMs, burst, startEmpty, ...common, ...permits },
      reference: { ...reference, rule: { kind, rate: units, perUs, burst, startEmpty } },
      most: burst,
      keyed,
      later: [],
    }
  }
  if (kind === 'sliding' || kind === 'fixed') {
    // A guard over half of a fixed window is refused.
    const guarded = kind === 'fixed' ? Math.min(guardMs, Math.floor(perMs / 2)) : guardMs
    return {
      name,
      policy: { window: kind, max: units, per: perMs, ...common, guard: guarded, ...permits },
      reference: { ...reference, guardUs: guarded * 1000, rule: { kind, max: units, perUs } },
      most: units,
      keyed,
      later: [],
    }
  }
  if (kind === 'spacing') {
    const everyMs = draw.pick([3, 20, 90, 400])
    return {
      name,
      policy: { every: everyMs, ...common, ...permits },
      reference: { ...reference, rule: { kind, everyUs: everyMs * 1000 } },
      most: 1,
      keyed,
      later: [],
    }
  }
  const permitsAlone = draw.int(1, 4)
  return {
    name,
    policy: { concurrency: permitsAlone },
    reference: { rule: null, concurrency: permitsAlone, guardUs: 0, freeRetries: false },
    most: 1,
    keyed,
    later: [],
  }
}

function actionsOf(
  draw: Draw,
  engines: number,
  limits: readonly LimitSpec[],
  queues: readonly QueueSpec[],
  use: (limit: LimitSpec) => Use,
): Action[] {
  const actions: Action[] = []
  const gapUs = draw.pick([2000, 30_000, 300_000])
  const calm = draw.chance(0.3)
  const steps = draw.chance(0.6)
  const cancels = draw.pick([0.05, 0.1, 0.5])
  let atUs = 0
  const left = Array.from({ length: draw.int(5, 30) }, (_, n) => n)
  while (left.length > 0) {
    atUs += draw.chance(0.4) ? 0 : draw.int(0, gapUs)
    // Long enough for unused lanes and buckets to be forgotten.
    if (draw.chance(0.002)) atUs += 190_000_000
    const engine = draw.int(0, 3)
    const numbers = left.splice(0, draw.chance(0.1) ? draw.int(2, 10) : 1)
    const jobs = numbers.map((n) => jobOf(draw, n, limits, queues, use, !steps))
    actions.push({ kind: 'enqueue', atUs, engine, jobs })
    if (draw.chance(cancels))
      actions.push({ kind: 'cancel', atUs: atUs + draw.int(0, gapUs), pick: draw.int(0, 1000), engine })
    if (calm) continue
    if (draw.chance(0.02)) {
      actions.push({
        kind: 'crash',
        atUs,
        engine,
        how: draw.pick(['idle', 'after-claim', 'before-settle', 'after-settle', 'after-enqueue']),
      })
      actions.push({ kind: 'start', atUs: atUs + draw.int(0, 3_000_000) })
    }
    if (draw.chance(0.01)) {
      actions.push({ kind: 'stop', atUs, engine, withinMs: draw.int(0, 2000) })
      actions.push({ kind: 'start', atUs: atUs + draw.int(0, 3_000_000) })
    }
    if (draw.chance(0.04)) actions.push({ kind: 'silence', atUs, engine, forUs: draw.int(100_000, 12_000_000) })
    if (steps && draw.chance(0.03))
      actions.push({ kind: 'step', atUs, byMs: draw.pick([-1, 1]) * draw.pick([1, 250, 60_000, 7_200_000]) })
  }
  // All that is down comes back at the end, so that nothing has a reason to be left over.
  for (let i = 0; i < engines; i++) actions.push({ kind: 'start', atUs: atUs + 4_000_000 })
  return actions.sort((a, b) => a.atUs - b.atUs)
}

/** The changes of limits while they are in use; a change that would hold jobs for ever ends at the end. */
function controlOf(draw: Draw, limits: readonly LimitSpec[], keys: number, lastUs: number): Action[] {
  const actions: Action[] = []
  const engine = (): number => draw.int(0, 3)
  const forMs = (): number | null => (draw.chance(0.6) ? draw.int(1, 3000) + draw.int(0, 999) / 1000 : null)
  const versions = new Map<string, number>()
  for (let left = draw.int(1, 12); left > 0; left--) {
    const limit = draw.pick(limits)
    const key = limit.keyed && draw.chance(0.6) ? `k${draw.int(1, keys)}` : null
    const atUs = draw.int(0, Math.min(lastUs, 20_000_000))
    const bucket = limit.keyed ? `k${draw.int(1, keys)}` : ''
    const what = draw.pick([
      'override',
      'override',
      'override',
      'pause',
      'pause',
      'end',
      'penalize',
      'charge',
      'deploy',
    ])
    const deployed = versions.get(limit.name) ?? 0
    const next = limit.later[deployed]
    if (next && (what === 'deploy' || draw.chance(0.3))) {
      versions.set(limit.name, deployed + 1)
      // In the order of their versions: what an older one says later is another matter, and does not count.
      actions.push({ kind: 'deploy', atUs, engine: engine(), limit: next, version: deployed + 1 })
      const older = limit.later[deployed - 1] ?? limit
      if (draw.chance(0.5))
        actions.push({ kind: 'deploy', atUs: atUs + 100_000, engine: engine(), limit: older, version: deployed })
    } else if (what === 'override' && changeOf(draw, limit) !== null) {
      const change = changeOf(draw, limit) ?? { change: { concurrency: 3 }, reference: { concurrency: 3 } }
      actions.push({ kind: 'override', atUs, engine: engine(), limit, key, ...change, forMs: forMs() })
    } else if (what === 'pause') actions.push({ kind: 'pause', atUs, engine: engine(), limit, key, forMs: forMs() })
    else if (what === 'end')
      actions.push({ kind: 'end', atUs, engine: engine(), of: draw.pick(['override', 'pause']), limit, key })
    else if (what === 'penalize')
      actions.push({ kind: 'penalize', atUs, engine: engine(), limit, key: bucket, forMs: draw.int(1, 2000) })
    else if (what === 'charge' && limit.later.length === 0 && limit.reference.rule?.kind === 'rate')
      actions.push({ kind: 'charge', atUs, engine: engine(), limit, key: bucket, units: draw.int(1, 5) })
  }
  for (const { kind, ...each } of actions.filter((action) => action.kind === 'pause' && action.forMs === null))
    if (kind === 'pause' && 'limit' in each && 'key' in each)
      actions.push({
        kind: 'end',
        atUs: lastUs + 1_000_000,
        engine: engine(),
        of: 'pause',
        limit: each.limit,
        key: each.key,
      })
  return actions
}

/** Other numbers for a limit; null: it has none that may be changed. */
function changeOf(draw: Draw, limit: LimitSpec): Pick<LimitChange, 'change' | 'reference'> | null {
  const { rule, concurrency } = limit.reference
  const permits = draw.chance(rule === null ? 1 : 0.3)
    ? {
        concurrency:
          concurrency !== null && rule !== null && limit.later.length === 0 && draw.chance(0.3) ? null : draw.int(1, 4),
      }
    : {}
  const only = { change: permits, reference: permits }
  if (rule === null || limit.later.length > 0) return 'concurrency' in permits ? only : null
  const perMs = draw.pick([20, 100, 700, 3000])
  if (rule.kind === 'spacing') {
    const everyMs = draw.pick([2, 30, 150, 800])
    return { change: { every: everyMs, ...permits }, reference: { everyUs: everyMs * 1000, ...permits } }
  }
  const given: { rate?: number; burst?: number; max?: number; perUs?: number } = {}
  // A guard over half of a fixed window is refused; a start heavier than a window runs into a debt that the reference cannot tell.
  if (draw.chance(0.5)) given.perUs = Math.max(perMs * 1000, rule.kind === 'fixed' ? 2 * limit.reference.guardUs : 0)
  if (rule.kind === 'rate') {
    if (draw.chance(0.7) || given.perUs === undefined) given.rate = draw.int(1, 12)
    if (draw.chance(0.5)) given.burst = draw.int(1, 12)
  } else if (given.perUs === undefined || draw.chance(0.6)) given.max = draw.int(limit.most, limit.most + 8)
  const { perUs, ...numbers } = given
  return {
    change: { ...numbers, ...(perUs === undefined ? {} : { per: perUs / 1000 }), ...permits },
    reference: { ...given, ...permits },
  }
}

function seriesOf(
  draw: Draw,
  limits: readonly LimitSpec[],
  queues: readonly QueueSpec[],
  use: (limit: LimitSpec) => Use,
  lastUs: number,
): Action[] {
  const actions: Action[] = []
  for (let i = draw.int(1, 2); i > 0; i--) {
    const n = 10_000 + i
    const kind = draw.pick(['every', 'every', 'cron'] as const)
    const maxRuns = draw.chance(0.7) ? draw.int(1, 12) : null
    const untilMs = draw.chance(0.3) ? draw.int(300, 8000) : null
    const onMissed = draw.chance(0.3) && maxRuns !== null ? 'catchUp' : 'skip'
    const series: SeriesSpec = {
      name: `series${i}`,
      n,
      kind,
      everyMs:
        kind === 'cron' ? draw.pick([1000, 2000, 5000]) : maxRuns === null ? draw.int(2000, 9000) : draw.int(250, 2500),
      immediately: draw.chance(0.3),
      overlap: draw.chance(0.5) ? 'skip' : 'allow',
      onMissed,
      maxRuns,
      untilMs,
      mayBeLate: untilMs !== null,
      job: { ...jobOf(draw, n, limits, queues, use, false), delayMs: null, unique: null },
    }
    const atUs = draw.int(0, Math.min(lastUs, 3_000_000))
    actions.push({ kind: 'schedule', atUs, engine: draw.int(0, 3), series })
    actions.push({ kind: 'unschedule', atUs: lastUs + 4_000_000, engine: draw.int(0, 3), name: series.name })
  }
  return actions
}

function jobOf(
  draw: Draw,
  n: number,
  limits: readonly LimitSpec[],
  queues: readonly QueueSpec[],
  use: (limit: LimitSpec) => Use,
  mayExpire: boolean,
): JobSpec {
  const count = draw.pick([0, 1, 1, 1, 2, 2, 3])
  const shuffled = limits.map((limit) => ({ limit, by: draw.int(0, 1e9) })).sort((a, b) => a.by - b.by)
  return {
    n,
    queue: draw.pick(queues).name,
    uses: shuffled.slice(0, count).map(({ limit }) => use(limit)),
    priority: draw.chance(0.2) ? draw.int(-3, 3) : 0,
    delayMs: draw.chance(0.1) ? draw.int(1, 2000) : null,
    expiresMs: mayExpire && draw.chance(0.15) ? draw.int(1, 3000) : null,
    unique: draw.chance(0.1)
      ? { key: `u${draw.int(1, 4)}`, onConflict: draw.pick(['ignore', 'reject', 'replace', 'update']) }
      : null,
  }
}

/** Draws from a seed. */
export class Draw {
  readonly #random: Random

  constructor(random: Random) {
    this.#random = random
  }

  /** A whole number from `from` to `to`, both included. */
  int(from: number, to: number): number {
    return from + Math.floor(this.#random.next() * (to - from + 1))
  }

  chance(probability: number): boolean {
    return this.#random.next() < probability
  }

  pick<T>(values: readonly T[]): T {
    return values[this.int(0, values.length - 1)] as T
  }
}
