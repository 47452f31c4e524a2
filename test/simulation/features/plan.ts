// One random use of everything that users configure, drawn from its seed before anything runs.
import { seededRandom } from '../../../src/base/random.ts'
import type { Policy } from '../../../src/policy/limits/policy.ts'
import { Draw } from '../scenario.ts'

/** One bound of a limit; times in µs, with the guard added. */
export type Rule =
  | { readonly kind: 'rate'; readonly rate: number; readonly burst: number; readonly perUs: number }
  | { readonly kind: 'sliding'; readonly max: number; readonly perUs: number }
  | { readonly kind: 'fixed'; readonly max: number; readonly perUs: number; readonly guardUs: number }
  | {
      readonly kind: 'calendar'
      readonly max: number
      readonly timezone: string
      readonly unit: 'hour' | 'day'
      readonly guardUs: number
    }
  | { readonly kind: 'spacing'; readonly perUs: number }

/** A limit as its users wrote it, and as the model reads it. */
export interface LimitPlan {
  readonly name: string
  readonly policy: Policy
  readonly rules: readonly Rule[]
  readonly concurrency: number | null
  readonly keyed: boolean
  /** Most units that one start may cost. */
  readonly most: number
  readonly onLimit: 'wait' | 'reschedule' | 'drop'
  readonly maxWaitUs: number
  readonly headroom: { readonly units: number; readonly priority: number } | null
  readonly freeRetries: boolean
  /** It belongs to a queue. */
  readonly ofQueue: boolean
}

export interface UsePlan {
  readonly limit: LimitPlan
  /** Empty for a limit without keys. */
  readonly key: string
  readonly weight: number
}

export interface QueuePlan {
  readonly name: string
  /** Of each engine. */
  readonly concurrency: number
  readonly uses: readonly UsePlan[]
}

export interface JobPlan {
  readonly n: number
  readonly queue: string
  readonly uses: readonly UsePlan[]
  readonly priority: number
  readonly delayMs: number
  readonly fairKey: string | null
  readonly share: number
}

export type Act = { readonly atUs: number } & (
  | { readonly kind: 'enqueue'; readonly job: JobPlan }
  | {
      readonly kind: 'flow'
      readonly flow: 'chain' | 'group' | 'batch'
      readonly jobs: readonly JobPlan[]
      readonly callback: JobPlan
    }
  | { readonly kind: 'cancel'; readonly pick: number }
  | { readonly kind: 'crash' }
)

export interface Plan {
  readonly seed: number
  readonly start: string
  readonly engines: number
  readonly limits: readonly LimitPlan[]
  readonly queues: readonly QueuePlan[]
  readonly acts: readonly Act[]
  /** Interval of one step, ms; null: nothing ages. */
  readonly ageingMs: number | null
  readonly attempts: number
  readonly retryMs: number
  readonly failing: number
  readonly refused: number
  readonly long: boolean
}

const ZONES = ['UTC', 'Europe/Rome', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kolkata', 'America/Sao_Paulo']
/** Beside changes to and from daylight saving, the ends of days, months and years. */
const STARTS = [
  '2026-03-29T00:58:00Z',
  '2026-10-25T00:58:30Z',
  '2026-11-01T05:59:30Z',
  '2026-10-03T15:29:00Z',
  '2028-02-28T23:59:40Z',
  '2026-06-01T12:00:00Z',
  '2026-12-31T22:59:50Z',
]

/** The plan of one seed. */
export function planOf(seed: number): Plan {
  const draw = new Draw(seededRandom(seed * 31 + 7))
  const engines = draw.chance(0.6) ? 1 : draw.int(2, 3)
  // In company an engine looks for others' commits many times a second, and a calendar's windows last for hours.
  const timezone = engines > 1 ? null : draw.pick(ZONES)
  const behaving = draw.pick([0, 0.5, 0.9])
  const roomy = draw.pick([0, 0, 0.3])
  const own = Array.from({ length: draw.int(1, 4) }, (_, i) => limitOf(draw, `l${i}`, { timezone, behaving, roomy }))
  const queues = Array.from({ length: draw.chance(0.7) ? 1 : 2 }, (_, i): QueuePlan => {
    const name = i === 0 ? 'default' : `q${i}`
    const limit = { ...limitOf(draw, `of-${name}`, { timezone, behaving: 0, roomy: 0 }), keyed: false, ofQueue: true }
    const uses = draw.chance(0.2) ? [{ limit, key: '', weight: 1 }] : []
    return { name, concurrency: draw.pick([1, 2, 3, 6, 30]), uses }
  })
  return {
    seed,
    start: draw.pick(STARTS),
    engines,
    limits: [...own, ...queues.flatMap((queue) => queue.uses.map((use) => use.limit))],
    queues,
    ageingMs: draw.chance(0.2) ? draw.pick([20, 200, 5000]) : null,
    attempts: draw.int(1, 3),
    retryMs: draw.pick([0, 40, 300]),
    failing: draw.pick([0, 0.1, 0.3]),
    refused: draw.pick([0, 0, 0.1]),
    long: draw.chance(0.3),
    acts: actsOf(draw, engines, own, queues),
  }
}

function limitOf(
  draw: Draw,
  name: string,
  odds: { timezone: string | null; behaving: number; roomy: number },
): LimitPlan {
  const kind = draw.pick(['rate', 'rate', 'sliding', 'sliding', 'fixed', 'calendar', 'spacing', 'none'] as const)
  const perMs = draw.pick([50, 100, 333, 1000, 2500])
  const asked = draw.chance(0.15) ? draw.int(1, 20) : 0
  const guardMs = kind === 'fixed' ? Math.min(asked, perMs / 2) : asked
  const concurrency = kind === 'none' ? draw.int(1, 4) : draw.chance(0.25) ? draw.int(1, 4) : null
  const { policy, rules, most } =
    kind === 'calendar' && odds.timezone !== null
      ? calendarOf(draw, odds.timezone, guardMs)
      : ruleOf(draw, kind === 'calendar' ? 'rate' : kind, perMs, guardMs)
  const whole = {
    ...policy,
    ...(kind === 'none' ? {} : { guard: guardMs }),
    ...(concurrency === null ? {} : { concurrency }),
  }
  const behaves = draw.chance(odds.behaving)
  const onLimit = behaves && draw.chance(0.4) ? draw.pick(['drop', 'reschedule', 'reschedule'] as const) : 'wait'
  const maxWait = behaves && draw.chance(0.4) ? draw.pick([0, 20, 150, 700, 3000, 20_000]) : null
  const freeRetries = behaves && draw.chance(0.25)
  const room = Math.min(most, concurrency ?? Infinity)
  const headroom =
    draw.chance(odds.roomy) && room >= 2 && room < Infinity
      ? { units: draw.int(1, room - 1), priority: draw.pick([5, 10]) }
      : null
  return {
    name,
    policy: {
      ...whole,
      ...(onLimit === 'wait' ? {} : { onLimit }),
      ...(maxWait === null ? {} : { maxWait }),
      ...(freeRetries ? { retries: 'free' } : {}),
      ...(headroom === null ? {} : { headroom }),
    } as Policy,
    rules,
    concurrency,
    keyed: draw.chance(0.6),
    most: most === Infinity ? 1 : Math.max(1, Math.min(3, most - (headroom?.units ?? 0))),
    onLimit,
    maxWaitUs: maxWait === null ? Infinity : maxWait * 1000,
    headroom,
    freeRetries,
    ofQueue: false,
  }
}

function ruleOf(
  draw: Draw,
  kind: 'rate' | 'sliding' | 'fixed' | 'spacing' | 'none',
  perMs: number,
  guardMs: number,
): { policy: Record<string, unknown>; rules: Rule[]; most: number } {
  const guardUs = guardMs * 1000
  const perUs = perMs * 1000
  const everyMs = draw.pick([3, 20, 90, 400])
  const beside = draw.chance(0.15)
  const spacing: Rule[] = beside ? [{ kind: 'spacing', perUs: everyMs * 1000 + guardUs }] : []
  const every = beside ? { every: everyMs } : {}
  const units = draw.int(1, 6)
  if (kind === 'rate') {
    const burst = draw.int(1, 6)
    const rule: Rule = { kind, rate: units, burst, perUs: perUs + guardUs }
    return { policy: { rate: units, per: perMs, burst, ...every }, rules: [rule, ...spacing], most: burst }
  }
  if (kind === 'sliding')
    return {
      policy: { window: kind, max: units, per: perMs, ...every },
      rules: [{ kind, max: units, perUs: perUs + guardUs }, ...spacing],
      most: units,
    }
  if (kind === 'fixed')
    return {
      policy: { window: kind, max: units, per: perMs },
      rules: [{ kind, max: units, perUs, guardUs }],
      most: units,
    }
  if (kind === 'spacing')
    return { policy: { every: everyMs }, rules: [{ kind, perUs: everyMs * 1000 + guardUs }], most: Infinity }
  return { policy: {}, rules: [], most: Infinity }
}

function calendarOf(
  draw: Draw,
  timezone: string,
  guardMs: number,
): { policy: Record<string, unknown>; rules: Rule[]; most: number } {
  // Its hours do not begin with those of the epoch.
  const unit = timezone === 'Australia/Lord_Howe' ? 'day' : draw.pick(['hour', 'day'] as const)
  const max = draw.int(3, 9)
  const policy = { window: 'fixed', max, per: unit === 'hour' ? '1h' : '1d', timezone }
  return { policy, rules: [{ kind: 'calendar', max, timezone, unit, guardUs: guardMs * 1000 }], most: max }
}

function actsOf(draw: Draw, engines: number, limits: readonly LimitPlan[], queues: readonly QueuePlan[]): Act[] {
  const weights = draw.chance(0.5)
  const fair = draw.chance(0.35)
  const priorities = draw.pick([[0], [0, 0, 0, 5], [0, 5, 10, -3], [0, 0, 10]])
  const keys = draw.int(1, 4)
  const useOf = (limit: LimitPlan): UsePlan => ({
    limit,
    key: limit.keyed ? `k${draw.int(1, keys)}` : '',
    weight: weights && draw.chance(0.5) ? draw.int(1, limit.most) : 1,
  })
  const made: JobPlan[] = []
  const job = (): JobPlan => {
    const count = draw.pick([0, 1, 1, 1, 2, 2, 3])
    const chosen = limits
      .map((limit) => ({ limit, by: draw.int(0, 1e9) }))
      .sort((a, b) => a.by - b.by)
      .slice(0, count)
    const planned: JobPlan = {
      n: made.length,
      queue: draw.pick(queues).name,
      uses: chosen.map(({ limit }) => useOf(limit)),
      priority: draw.pick(priorities),
      delayMs: draw.chance(0.12) ? draw.int(1, 2000) : 0,
      fairKey: fair ? draw.pick([null, 'a', 'b', 'c']) : null,
      share: fair && draw.chance(0.3) ? draw.int(2, 4) : 1,
    }
    made.push(planned)
    return planned
  }
  const acts: Act[] = []
  const gapUs = draw.pick([2, 30, 300]) * 1000
  const total = draw.chance(0.3) ? draw.int(40, 70) : draw.int(5, 40)
  let atUs = 0
  while (made.length < total) {
    atUs += draw.chance(0.5) ? 0 : draw.int(0, gapUs)
    if (draw.chance(0.1)) {
      const jobs = Array.from({ length: draw.int(2, 4) }, () => ({ ...job(), delayMs: 0 }))
      const callback = { ...job(), delayMs: 0 }
      acts.push({ atUs, kind: 'flow', flow: draw.pick(['chain', 'group', 'batch']), jobs, callback })
    } else acts.push({ atUs, kind: 'enqueue', job: job() })
    if (draw.chance(0.05)) acts.push({ atUs: atUs + draw.int(0, gapUs * 3), kind: 'cancel', pick: draw.int(0, 1e6) })
    if (engines > 1 && draw.chance(0.03)) acts.push({ atUs, kind: 'crash' })
  }
  return acts.sort((a, b) => a.atUs - b.atUs)
}
