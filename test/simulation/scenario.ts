// One random history, drawn from its seed before anything runs: limits, queues, tasks, and what happens when.
import { type Random, seededRandom } from '../../src/base/random.ts'
import type { Policy } from '../../src/policy/policy.ts'
import type { ReferencePolicy } from './reference.ts'

export interface LimitSpec {
  readonly name: string
  readonly policy: Policy
  readonly reference: ReferencePolicy
  /** Most units that one start may cost. */
  readonly most: number
  readonly keyed: boolean
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
  /** What the job is known by in its input. */
  readonly n: number
  readonly queue: string
  readonly uses: readonly Use[]
  readonly priority: number
  readonly delayMs: number | null
  readonly unique: { readonly key: string; readonly onConflict: 'ignore' | 'reject' | 'replace' | 'update' } | null
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
)

export interface Scenario {
  readonly seed: number
  readonly engines: number
  readonly limits: readonly LimitSpec[]
  readonly queues: readonly QueueSpec[]
  readonly attempts: number
  readonly retryDelayMs: number
  readonly timeoutMs: number | null
  readonly leaseMs: number
  readonly actions: readonly Action[]
}

/** What a run does. */
export interface Behaviour {
  readonly lastsMs: number
  readonly end: 'return' | 'throw' | 'refused' | 'fatal'
  readonly retryAfterMs: number
  /** Goes on when its signal is aborted for a lost lease or a stop. */
  readonly deaf: boolean
}

/** What attempt `attempt` of job `n` does. */
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

export function scenarioOf(seed: number): Scenario {
  const draw = new Draw(seededRandom(seed))
  const engines = draw.chance(0.5) ? 1 : draw.int(2, 4)
  const limits = Array.from({ length: draw.int(1, 4) }, (_, i) => limitOf(draw, `l${i}`))
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
    uses: draw.chance(0.2) ? [{ ...use(limitOf(draw, `queue${i}`)), weight: 1 }] : [],
  }))
  const actions = actionsOf(draw, engines, limits, queues, use)
  return {
    seed,
    engines,
    limits: [...limits, ...queues.flatMap((queue) => queue.uses.map((each) => each.limit))],
    queues,
    attempts: draw.int(1, 4),
    retryDelayMs: draw.pick([0, 40, 300]),
    timeoutMs: draw.chance(0.2) ? draw.int(100, 1000) : null,
    leaseMs: draw.pick([1000, 3000, 9000]),
    actions,
  }
}

function limitOf(draw: Draw, name: string): LimitSpec {
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
    }
  }
  const permitsAlone = draw.int(1, 4)
  return {
    name,
    policy: { concurrency: permitsAlone },
    reference: { rule: null, concurrency: permitsAlone, guardUs: 0, freeRetries: false },
    most: 1,
    keyed,
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
  const cancels = draw.pick([0.05, 0.1, 0.5])
  let atUs = 0
  const left = Array.from({ length: draw.int(5, 60) }, (_, n) => n)
  while (left.length > 0) {
    atUs += draw.chance(0.4) ? 0 : draw.int(0, gapUs)
    // Long enough for lanes and buckets that nobody needs any more to be forgotten.
    if (draw.chance(0.002)) atUs += 190_000_000
    const engine = draw.int(0, 3)
    const numbers = left.splice(0, draw.chance(0.1) ? draw.int(2, 10) : 1)
    const jobs = numbers.map((n) => jobOf(draw, n, limits, queues, use))
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
    if (draw.chance(0.02))
      actions.push({ kind: 'step', atUs, byMs: draw.pick([-1, 1]) * draw.pick([1, 250, 60_000, 7_200_000]) })
  }
  // Whatever is down comes back at the end, so that nothing has a reason to be left over.
  for (let i = 0; i < engines; i++) actions.push({ kind: 'start', atUs: atUs + 4_000_000 })
  return actions.sort((a, b) => a.atUs - b.atUs)
}

function jobOf(
  draw: Draw,
  n: number,
  limits: readonly LimitSpec[],
  queues: readonly QueueSpec[],
  use: (limit: LimitSpec) => Use,
): JobSpec {
  const count = draw.pick([0, 1, 1, 1, 2, 2, 3])
  const shuffled = limits.map((limit) => ({ limit, by: draw.int(0, 1e9) })).sort((a, b) => a.by - b.by)
  return {
    n,
    queue: draw.pick(queues).name,
    uses: shuffled.slice(0, count).map(({ limit }) => use(limit)),
    priority: draw.chance(0.2) ? draw.int(-3, 3) : 0,
    delayMs: draw.chance(0.1) ? draw.int(1, 2000) : null,
    unique: draw.chance(0.1)
      ? { key: `u${draw.int(1, 4)}`, onConflict: draw.pick(['ignore', 'reject', 'replace', 'update']) }
      : null,
  }
}

class Draw {
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
