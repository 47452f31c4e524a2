import type { ModelLimit, ModelShare } from '../../model/lanes.mjs'

/** One job of a history; times in ms. */
export interface Arrival {
  readonly buckets: readonly string[]
  readonly priority: number
  readonly weight: number
  readonly ms: number
}

/** The events, in order: jobs arrive, the n-th job is cancelled, time goes on until `ms`. */
export type Step =
  | { readonly kind: 'arrive'; readonly job: Arrival }
  | { readonly kind: 'cancel'; readonly job: number }
  | { readonly kind: 'run'; readonly ms: number }

/** A random history, with all that is needed to run it. */
export interface History {
  readonly seed: number
  readonly limits: Readonly<Record<string, ModelLimit>>
  readonly slots: number
  readonly steps: readonly Step[]
}

/**
 * `any`: all that the rules allow; the choice of the first of several lanes decides the rest, so two sound schedulers
 * may differ. `single`: every job needs one bucket, and slots are without end: no choice is left. `shared`: lanes of
 * one shared limit, whose own limits never refuse, with jobs that are alike: any choice starts as many. `shadow`: as
 * `any`, and some limits only tell what they would have done. `shares`: as `shadow`, with guaranteed shares of a common
 * limit, in rates and in permits.
 */
export type HistoryKind = 'any' | 'single' | 'shared' | 'shadow' | 'shares'

/** The history of a seed, always the same. */
export function historyOf(seed: number, kind: HistoryKind): History {
  const random = mulberry(seed)
  const int = (n: number): number => Math.floor(random() * n)
  const limit = (): ModelLimit =>
    random() < 0.25
      ? { concurrency: 1 + int(3) }
      : { T: 10 + int(200), burst: 1 + int(5), ...(random() < 0.3 && { concurrency: 1 + int(4) }) }
  return kind === 'shared' ? shared(seed, random, int, limit) : mixed(seed, kind, random, int, limit)
}

function mixed(
  seed: number,
  kind: HistoryKind,
  random: () => number,
  int: (n: number) => number,
  limit: () => ModelLimit,
): History {
  const limits: Record<string, ModelLimit> = {}
  const count = 1 + int(3)
  for (let i = 0; i < count; i++) limits[`l${i}`] = limit()
  if (kind === 'shadow' || kind === 'shares')
    for (const [name, each] of Object.entries(limits)) if (random() < 0.4) limits[name] = inShadow(each, random, int)
  if (kind === 'shares') Object.assign(limits, sharing(random, int))
  const keys = 1 + int(4)
  const slots = kind === 'single' ? 1e6 : 1 + int(20)
  const steps: Step[] = []
  let atMs = 0
  for (let i = 0; i < 60; i++) {
    const wanted = kind === 'single' ? 1 : 1 + int(count)
    const names = new Set<string>()
    while (names.size < wanted) names.add(`l${int(count)}${random() < 0.6 ? `:${int(keys)}` : ''}`)
    if (kind === 'shares') share(names, random, int, keys)
    const most = Math.min(...[...names].map((name) => limits[name.split(':')[0]!]?.burst ?? 99))
    const weight = Math.min(1 + int(3), most)
    steps.push({
      kind: 'arrive',
      job: { buckets: [...names].sort(), priority: random() < 0.2 ? 5 : 0, weight, ms: int(80) },
    })
    if (random() < 0.1) steps.push({ kind: 'cancel', job: int(i + 1) })
    if (random() < 0.6) {
      atMs += int(120)
      steps.push({ kind: 'run', ms: atMs })
    }
  }
  steps.push({ kind: 'run', ms: 10_000_000 })
  return { seed, limits, slots, steps }
}

function shared(seed: number, random: () => number, int: (n: number) => number, limit: () => ModelLimit): History {
  const limits = { g: limit(), own: { T: 1, burst: 1000 } }
  const job = { weight: Math.min(1 + int(3), limits.g.burst ?? 99), ms: int(80) }
  const steps: Step[] = []
  const lanes = 1 + int(10)
  let atMs = 0
  for (let i = 0; i < 60; i++) {
    const priority = random() < 0.2 ? 5 : 0
    steps.push({ kind: 'arrive', job: { buckets: ['g', `own:${int(lanes)}`], priority, ...job } })
    if (random() < 0.4) steps.push({ kind: 'run', ms: (atMs += int(300)) })
  }
  steps.push({ kind: 'run', ms: 10_000_000 })
  return { seed, limits, slots: 1e6, steps }
}

function inShadow(limit: ModelLimit, random: () => number, int: (n: number) => number): ModelLimit {
  const drops = random() < 0.3
  return { ...limit, mode: 'shadow', ...(drops && { onLimit: 'drop' }), ...(random() < 0.3 && { maxWait: int(500) }) }
}

/** A common limit `c`, and two with a guaranteed share of it, which seldom refuse by themselves. */
function sharing(random: () => number, int: (n: number) => number): Record<string, ModelLimit> {
  const permits = random() < 0.25
  const T = 10 + int(40)
  const burst = 1 + int(8)
  const concurrency = permits || random() < 0.3 ? 2 + int(3) : null
  const some = (units: number | null): { concurrency?: number } => (units === null ? {} : { concurrency: units })
  const limits: Record<string, ModelLimit> = { c: { ...(!permits && { T, burst }), ...some(concurrency) } }
  for (const name of ['s', 'u']) {
    const of: ModelShare = {
      limit: 'c',
      ...(!permits && { T: 2 * T + int(200), burst: 1 + int(Math.min(burst, 3)) }),
      ...some(concurrency !== null && (permits || random() < 0.5) ? 1 + int(concurrency) : null),
      ...(random() < 0.5 && { keys: 1 + int(3) }),
    }
    limits[name] = { ...(!permits && { T: 1 + int(T), burst: 99 }), ...some(concurrency && concurrency + 60), of }
  }
  return limits
}

/** Makes a job one that needs the common limit, mostly, and often a share of it. */
function share(names: Set<string>, random: () => number, int: (n: number) => number, keys: number): void {
  if (random() < 0.3) names.clear()
  if (random() < 0.8 || names.size === 0) names.add('c')
  for (const [name, often] of [
    ['s', 0.5],
    ['u', 0.2],
  ] as const)
    if (random() < often) names.add('c').add(`${name}:${int(keys)}`)
}

/** Source: mulberry32, by Tommy Ettinger (public domain). */
function mulberry(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
