// The same measurements for every engine.
import { setTimeout as sleep } from 'node:timers/promises'
import { engineOf } from './engines.ts'
import { statement } from './engines/schema.ts'
import { type Budget, nowUs, type Payload, type Profile, type Setting, type Side } from './engine.ts'
import { WorkerProcesses } from './processes.ts'
import type { Servers } from './servers.ts'

/** The servers and the size of one round. */
export interface Round {
  readonly servers: Servers
  /** Sizes are multiplied by this: 1 for figures, less for a first look. */
  readonly scale: number
}

/** The results of one measurement by name. */
export type Numbers = Readonly<Record<string, number>>

/** One measurement. */
export type Measure = (round: Round) => Promise<Numbers>

/** In what a measurement differs from jobs without limits, at concurrency 100, in one process, as documented. */
export interface Terms {
  readonly jobs?: number
  readonly seconds?: number
  readonly processes?: number
  readonly concurrency?: number
  readonly profile?: Profile
  readonly budget?: Budget
  /** Keys over which the jobs are spread; each has the budget. */
  readonly keys?: number
  readonly share?: number
  readonly stripes?: number
  readonly build?: string
}

const BULK = 1000
const IN_FLIGHT = 100
const PATIENCE_MS = 180_000
const NEVER: Budget = { kind: 'never', perSecond: 1_000_000 }
/** A rate is taken from this long after the first start on. */
const WARM_US = 1e6
const PROBE_EVERY_MS = 10
const BETWEEN_BURSTS_US = 300_000

/** Jobs per second from the first start until the store holds no job that has not ended. */
export function drain(engine: string, terms: Terms = {}): Measure {
  return async (round) => {
    const jobs = sized(engine, round, terms.jobs ?? 50_000, 500)
    const { keys } = terms
    return withEngine(engine, round, terms, async (side, setting) => {
      await fill(side, jobs, (n) => ({ n, ...(keys !== undefined && { key: `k${n % keys}` }) }))
      if (!['bullmq', 'sluice-sqlite'].includes(engine)) await statement(round.servers.postgres, 'ANALYZE')
      const workers = await working(engine, setting, terms.processes ?? 1)
      if (!(await workers.done(jobs, PATIENCE_MS))) throw new Error(`${engine} ran ${workers.ran} of ${jobs} jobs`)
      while (await side.hasWork()) await sleep(PROBE_EVERY_MS)
      const rate = jobs / ((nowUs() - workers.firstUs) / 1e6)
      await workers.stop()
      return { 'jobs/s': rate }
    })
  }
}

/** Enqueues: awaited one by one, with 100 in flight, and 1,000 a call. */
export function enqueue(engine: string, terms: Terms = {}): Measure {
  return (round) =>
    withEngine(engine, round, terms, async (side) => {
      for (let n = 0; n < 100; n++) await side.enqueue({ n })
      const alone = sized(engine, round, 3000, 200)
      const oneByOne = await rate(alone, 1, (n) => side.enqueue({ n }))
      const many = sized(engine, round, 20_000, 500)
      const inFlight = await rate(many, IN_FLIGHT, (n) => side.enqueue({ n }))
      const bulks = Math.ceil(sized(engine, round, 50_000, BULK) / BULK)
      const bulk = await rate(bulks, 1, (n) =>
        side.enqueueMany(Array.from({ length: BULK }, (_, i) => ({ n: n * BULK + i }))),
      )
      return { 'one by one/s': oneByOne, 'in flight/s': inFlight, 'bulk/s': bulk * BULK }
    })
}

/** Milliseconds from the call of enqueue to the handler at 100 jobs/s, in this process or in another. */
export function pickUp(engine: string, where: 'same' | 'other', terms: Terms = {}): Measure {
  return async (round) => {
    const seconds = Math.max(1, (terms.seconds ?? 8) * round.scale)
    if (where === 'other')
      return withEngine(engine, round, terms, async (side, setting) => {
        const workers = await working(engine, setting, 1)
        const jobs = await pace(seconds * 1000, 10, (n) => side.enqueue({ n, atUs: nowUs() }))
        await workers.done(jobs, PATIENCE_MS)
        await workers.stop()
        return quantiles(workers.waits.slice(50).map(({ waitMs }) => waitMs))
      })
    const waits: number[] = []
    return withEngine(
      engine,
      round,
      { concurrency: 10, ...terms },
      async (side) => {
        await side.work(({ atUs = 0 }) => void waits.push((nowUs() - atUs) / 1000))
        const jobs = await pace(seconds * 1000, 10, (n) => side.enqueue({ n, atUs: nowUs() }))
        for (let tries = 0; waits.length < jobs && tries < 500; tries++) await sleep(PROBE_EVERY_MS)
        return quantiles(waits.slice(50))
      },
      true,
    )
  }
}

/** Jobs per second, each enqueued when the one before has its result. */
export function chain(engine: string, terms: Terms = {}): Measure {
  return (round) =>
    withEngine(
      engine,
      round,
      { concurrency: 10, ...terms },
      async (side) => {
        let ran = (): void => undefined
        await side.work(() => ran())
        const untilHandler = async (n: number): Promise<void> => {
          const started = new Promise<void>((resolve) => (ran = resolve))
          await side.enqueue({ n })
          await started
        }
        const one = side.result
          ? (n: number): Promise<unknown> => (side.result as Side['enqueue'])({ n })
          : untilHandler
        for (let n = 0; n < 50; n++) await one(n)
        const startUs = nowUs()
        const endUs = startUs + Math.max(1, 5 * round.scale) * 1e6
        let jobs = 0
        while (nowUs() < endUs) await one(jobs++)
        return { 'jobs/s': jobs / ((nowUs() - startUs) / 1e6) }
      },
      true,
    )
}

/** The share of its budget that one key with a backlog uses, and the most starts in any second. */
export function strictKey(engine: string, budget: Budget, terms: Terms = {}): Measure {
  return async (round) => {
    const seconds = Math.max(2, (terms.seconds ?? 8) * round.scale)
    return withEngine(engine, round, { ...terms, budget }, async (side, setting) => {
      await fill(side, Math.ceil(budget.perSecond * (seconds + 4)), (n) => ({ n, key: 'a' }))
      const workers = await working(engine, setting, terms.processes ?? 1, true)
      while (workers.firstUs === Infinity) await sleep(PROBE_EVERY_MS)
      await sleep(seconds * 1000 + 1500)
      const fromUs = workers.firstUs + WARM_US
      const starts = workers.startsUs.sort((a, b) => a - b)
      await workers.stop()
      const counted = starts.filter((at) => at >= fromUs && at < fromUs + seconds * 1e6).length
      const used = budget.kind === 'sliding' ? inBursts(starts) : counted / seconds
      return { used: used / budget.perSecond, 'worst second': mostWithin(starts, 1e6) }
    })
  }
}

/** Key A has a backlog beyond its budget of 100/s; B adds a job every 100 ms. Milliseconds until B's jobs start. */
export function neighbour(engine: string, terms: Terms = {}): Measure {
  return async (round) => {
    const seconds = Math.max(2, (terms.seconds ?? 10) * round.scale)
    const holdMs = engine === 'graphile' ? 10 : undefined
    const budget: Budget = { kind: 'sliding', perSecond: 100 }
    return withEngine(engine, round, { ...terms, budget }, async (side, setting) => {
      await fill(side, sized(engine, round, 50_000, 2000), (n) => ({ n, key: 'a', ...(holdMs && { holdMs }) }))
      const workers = await working(engine, setting, 1)
      await sleep(2000)
      const sent = await pace(seconds * 1000, 100, (n) => side.enqueue({ n, key: 'b', atUs: nowUs() }))
      await sleep(1500)
      await workers.stop()
      const waits = workers.waits.filter(({ key }) => key === 'b').map(({ waitMs }) => waitMs)
      const never = Array.from({ length: sent - waits.length }, () => Infinity)
      return quantiles([...waits, ...never])
    })
  }
}

/** Opens an engine in an empty space, and removes what the measurement left. @param works this process runs jobs too */
export async function withEngine(
  name: string,
  { servers }: Round,
  terms: Terms,
  ask: (side: Side, setting: Setting) => Promise<Numbers>,
  works = false,
): Promise<Numbers> {
  const { concurrency = 100, profile = 'ordinary', keys, share, stripes, build } = terms
  const engine = engineOf(name)
  const budget = terms.budget ?? (keys === undefined ? undefined : NEVER)
  const { postgres, redis, folder } = servers
  const setting: Setting = {
    postgres,
    redis,
    folder,
    profile,
    space: `compare_${process.pid}_${name.replaceAll('-', '_')}`,
    concurrency,
    ...(budget && { budget }),
    ...(share !== undefined && { share }),
    ...(stripes !== undefined && { stripes }),
    ...(build !== undefined && { build }),
  }
  await engine.erase(setting)
  const side = await engine.open(works ? setting : { ...setting, concurrency: 0 })
  try {
    return await ask(side, setting)
  } finally {
    await side.close()
    await engine.erase(setting)
  }
}

async function working(engine: string, setting: Setting, processes: number, stamps = false): Promise<WorkerProcesses> {
  const workers = await WorkerProcesses.start({ engine, setting, stamps }, processes)
  await workers.go()
  return workers
}

function sized(engine: string, { scale }: Round, jobs: number, least: number): number {
  return Math.max(least, Math.round(jobs * scale * (engineOf(engine).pace ?? 1)))
}

async function fill(side: Side, jobs: number, payload: (n: number) => Payload): Promise<void> {
  for (let n = 0; n < jobs; n += BULK)
    await side.enqueueMany(Array.from({ length: Math.min(BULK, jobs - n) }, (_, i) => payload(n + i)))
}

/** Calls per second, with so many in flight. */
export async function rate(calls: number, inFlight: number, call: (n: number) => Promise<unknown>): Promise<number> {
  const startUs = nowUs()
  let next = 0
  const one = async (): Promise<void> => {
    while (next < calls) await call(next++)
  }
  await Promise.all(Array.from({ length: inFlight }, one))
  return calls / ((nowUs() - startUs) / 1e6)
}

/** Sends at a steady pace, without waiting for answers. @returns the number sent */
async function pace(forMs: number, everyMs: number, send: (n: number) => Promise<unknown>): Promise<number> {
  const startUs = nowUs()
  const sent: Promise<unknown>[] = []
  for (let n = 0; n * everyMs < forMs; n++) {
    await sleep(Math.max(0, (startUs + n * everyMs * 1000 - nowUs()) / 1000))
    sent.push(send(n))
  }
  await Promise.all(sent)
  return sent.length
}

export function quantiles(waitsMs: readonly number[]): Numbers {
  const sorted = [...waitsMs].sort((a, b) => a - b)
  const at = (fraction: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? NaN
  return { 'p50 ms': at(0.5), 'p99 ms': at(0.99) }
}

/** Starts per second of a window that fills at once: from its first burst to its last, without that. */
function inBursts(sortedUs: readonly number[]): number {
  let last = 0
  for (let n = 1; n < sortedUs.length; n++)
    if ((sortedUs[n] as number) - (sortedUs[n - 1] as number) > BETWEEN_BURSTS_US) last = n
  return last === 0 ? NaN : last / (((sortedUs[last] as number) - (sortedUs[0] as number)) / 1e6)
}

/** The most of these instants in any half-open interval of that length. */
function mostWithin(sortedUs: readonly number[], lengthUs: number): number {
  let [most, from] = [0, 0]
  for (let to = 0; to < sortedUs.length; to++) {
    while ((sortedUs[to] as number) - (sortedUs[from] as number) >= lengthUs) from++
    most = Math.max(most, to - from + 1)
  }
  return most
}
