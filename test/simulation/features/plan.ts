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
  /** It only tells what it would have done. */
  readonly shadow: boolean
  /** The common limit that each start pays to as well, and the share of it; null: there is none. */
  readonly share: SharePlan | null
}

/** A guaranteed share of a common limit. */
export interface SharePlan {
  readonly common: LimitPlan
  /** The key of the common limit; empty: it has none. */
  readonly key: string
  readonly rule: { readonly everyUs: number; readonly burst: number } | null
  readonly concurrency: number | null
  /** How many keys count; null: others leave half of the burst. */
  readonly keys: number | null
}

export interface UsePlan {
  readonly limit: LimitPlan
  /** Empty for a limit without keys. */
  readonly key: string
  readonly weight: number
  /** The limit of a share pays here: the call does not name it. */
  readonly implied: boolean
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
  | { readonly kind: 'acquire'; readonly ticket: JobPlan; readonly holdMs: number; readonly engine: number }
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
  const drawn = Array.from({ length: draw.int(1, 4) }, (_, i) => limitOf(draw, `l${i}`, { timezone, behaving, roomy }))
  // Drawn apart, so that a seed is the same history without it.
  const apart = new Draw(seededRandom(seed * 7919 + 101))
  const own = withShares(apart, withShadows(apart, drawn))
  const queues = Array.from({ length: draw.chance(0.7) ? 1 : 2 }, (_, i): QueuePlan => {
    const name = i === 0 ? 'default' : `q${i}`
    const limit = { ...limitOf(draw, `of-${name}`, { timezone, behaving: 0, roomy: 0 }), keyed: false, ofQueue: true }
    const uses = draw.chance(0.2) ? [{ limit, key: '', weight: 1, implied: false }] : []
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
    acts: withTickets(apart, actsOf(draw, engines, own, queues), own),
  }
}

function withShadows(draw: Draw, limits: readonly LimitPlan[]): LimitPlan[] {
  if (!draw.chance(0.3)) return [...limits]
  return limits.map((each) =>
    draw.chance(0.4) ? { ...each, shadow: true, policy: { ...each.policy, mode: 'shadow' } } : each,
  )
}

/** Units per µs in the long run; a spacing counts starts. */
function paceOf({ rules }: LimitPlan): number {
  return Math.min(
    ...rules.map((rule) => {
      if (rule.kind === 'calendar') return Infinity
      return (rule.kind === 'rate' ? rule.rate : rule.kind === 'spacing' ? 1 : rule.max) / rule.perUs
    }),
  )
}

function burstOf({ rules }: LimitPlan): number {
  return Math.min(
    ...rules.map((rule) => (rule.kind === 'rate' ? rule.burst : rule.kind === 'sliding' ? rule.max : Infinity)),
  )
}

/** Gives some limits a share of another one. */
function withShares(draw: Draw, limits: readonly LimitPlan[]): LimitPlan[] {
  const [common, ...others] = limits
  if (!common || common.shadow || !draw.chance(0.6)) return [...limits]
  const key = common.keyed ? `k${draw.int(1, 2)}` : ''
  return [common, ...others.map((own) => (draw.chance(0.7) ? withShare(draw, own, common, key) : own))]
}

function withShare(draw: Draw, own: LimitPlan, common: LimitPlan, key: string): LimitPlan {
  const pace = Math.min(paceOf(own), paceOf(common))
  const isGradual = common.rules.length > 0 && common.rules.every(({ kind }) => kind !== 'fixed' && kind !== 'calendar')
  const most = Math.min(own.concurrency ?? 0, common.concurrency ?? 0)
  const everyMs = Math.ceil(draw.pick([1.01, 1.5, 3]) / pace / 1000)
  const burst = Math.max(1, Math.min(draw.int(1, 3), burstOf(own), burstOf(common)))
  const rule = isGradual && pace < Infinity && draw.chance(0.8) ? { everyUs: everyMs * 1000, burst } : null
  const concurrency = most > 0 && draw.chance(0.8) ? draw.int(1, most) : null
  if (rule === null && concurrency === null) return own
  const keys = draw.pick([null, 1, 3])
  return { ...own, share: { common, key, rule, concurrency, keys }, most: Math.min(own.most, common.most) }
}

/** Calls of plain code, with the limits of jobs. */
function withTickets(draw: Draw, acts: readonly Act[], limits: readonly LimitPlan[]): Act[] {
  const open = limits.filter(({ onLimit, maxWaitUs, share }) =>
    [{ onLimit, maxWaitUs }, ...(share ? [share.common] : [])].every(
      (each) => each.onLimit === 'wait' && each.maxWaitUs === Infinity,
    ),
  )
  if (open.length === 0 || !draw.chance(0.5)) return [...acts]
  const lastUs = acts.at(-1)?.atUs ?? 0
  const calls = Array.from({ length: draw.int(1, 15) }, (_, i): Act => {
    const chosen = draw.chance(0.7) ? [draw.pick(open)] : open.slice(0, 2)
    const uses = chosen.map((limit) => useOf(draw, limit, 2, () => draw.chance(0.5)))
    const ticket = { ...PLAIN, n: TICKETS + i, uses: withCommon(uses), priority: draw.pick([0, 0, 5]) }
    const holdMs = draw.chance(0.3) ? 0 : draw.int(1, 300)
    return { atUs: draw.int(0, lastUs), kind: 'acquire', ticket, holdMs, engine: draw.int(0, 3) }
  })
  return [...acts, ...calls].sort((a, b) => a.atUs - b.atUs)
}

/** Tickets have numbers above those of jobs. */
const TICKETS = 1000
/** The queue of tickets: each process has its own, without slots. */
export const PLAIN_CODE = 'plain code'
const PLAIN = { queue: PLAIN_CODE, delayMs: 0, fairKey: null, share: 1 } as const

function useOf(draw: Draw, limit: LimitPlan, keys: number, isHeavy: () => boolean): UsePlan {
  return {
    limit,
    key: limit.keyed ? `k${draw.int(1, keys)}` : '',
    weight: isHeavy() ? draw.int(1, limit.most) : 1,
    implied: false,
  }
}

/** A start pays to the common limits of its shares too: at most once to a bucket, with the greatest weight. */
function withCommon(uses: readonly UsePlan[]): UsePlan[] {
  const all = [...uses]
  for (const { limit, weight } of uses) {
    if (!limit.share) continue
    const { common, key } = limit.share
    const same = all.findIndex((each) => each.limit === common && each.key === key)
    const known = all[same]
    if (!known) all.push({ limit: common, key, weight, implied: true })
    else if (known.weight < weight) all[same] = { ...known, weight }
  }
  return all
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
    shadow: false,
    share: null,
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
      uses: withCommon(chosen.map(({ limit }) => useOf(draw, limit, keys, () => weights && draw.chance(0.5)))),
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
