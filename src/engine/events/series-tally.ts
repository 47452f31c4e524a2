import type { GrantedJob } from '../../jobs/job.ts'
import { CLASSES_AT_MOST, classOf, type Tallies, type Tally } from '../../jobs/tally.ts'
import type { NewSeriesRow } from '../../store/contract/series.ts'

/** The length of a step, in ms. */
const STEP_MS = 10_000
const NAMES_AT_MOST = 1000
/** A claim that takes longer is worth a row of its own. */
const SLOW_CLAIM_MS = 100
const KEYS_COUNTED = 500
const KEYS_KEPT = 50
const CAUSES_AT_MOST = 50

/** Counts of one name. All fields are there from the start: this is counted for each job. */
class Count {
  starts = 0
  completed = 0
  failed = 0
  denied = 0
  waited = 0
  waitedMs = 0
  units = 0
  /** Runs by class of their time. */
  readonly runs: Uint32Array | null
  /** Starts by class of their wait. */
  waits: Uint32Array | null = null
  readonly #withWaits: boolean
  /** Waits by limit, in ms. */
  #causes: Map<string, number> | null = null

  constructor(withRuns: boolean, withWaits: boolean) {
    this.runs = withRuns ? new Uint32Array(CLASSES_AT_MOST) : null
    this.#withWaits = withWaits
  }

  start(waitedMs: number, units: number): void {
    this.starts++
    this.units += units
    if (waitedMs === 0) return
    this.waited++
    this.waitedMs += waitedMs
    if (!this.#withWaits) return
    const waits = (this.waits ??= new Uint32Array(CLASSES_AT_MOST))
    const at = classOf(waitedMs)
    waits[at] = (waits[at] ?? 0) + 1
  }

  cause(limit: string, waitedMs: number): void {
    const causes = (this.#causes ??= new Map<string, number>())
    if (causes.has(limit) || causes.size < CAUSES_AT_MOST) causes.set(limit, (causes.get(limit) ?? 0) + waitedMs)
  }

  end(isFailed: boolean, at: number): void {
    if (isFailed) this.failed++
    else this.completed++
    if (this.runs) this.runs[at] = (this.runs[at] ?? 0) + 1
  }

  get tally(): Tally {
    const { starts: s, completed: c, failed: f, denied: d, waited: w, waitedMs, units: u } = this
    const m = Math.round(waitedMs)
    const [r, h] = [countsOf(this.runs), countsOf(this.waits)]
    return {
      ...(s > 0 && { s }),
      ...(c > 0 && { c }),
      ...(f > 0 && { f }),
      ...(d > 0 && { d }),
      ...(w > 0 && { w }),
      ...(m > 0 && { m }),
      ...(u > 0 && { u }),
      ...(r && { r }),
      ...(h && { h }),
      ...(this.#causes && { b: Object.fromEntries([...this.#causes].map(([limit, ms]) => [limit, Math.round(ms)])) }),
    }
  }
}

/** Counts of one step. Queues have sums alone, limits and keys have waits, tasks have both. */
class Step {
  readonly at: number
  readonly all = new Count(true, true)
  readonly claims = new Count(true, false)
  readonly queues = new Map<string, Count>()
  readonly tasks = new Map<string, Count>()
  readonly limits = new Map<string, Count>()
  readonly keys = new Map<string, Map<string, Count>>()
  hasSlowClaims = false

  constructor(at: number) {
    this.at = at
  }

  queue(name: string): Count | undefined {
    return this.queues.get(name) ?? added(this.queues, name, NAMES_AT_MOST, false, false)
  }

  task(name: string): Count | undefined {
    return this.tasks.get(name) ?? added(this.tasks, name, NAMES_AT_MOST, true, true)
  }

  limit(name: string): Count | undefined {
    return this.limits.get(name) ?? added(this.limits, name, NAMES_AT_MOST, false, true)
  }

  /** Undefined for a limit without keys. */
  key(limit: string, key: string): Count | undefined {
    if (key === '') return undefined
    let keys = this.keys.get(limit)
    if (!keys && this.keys.size < NAMES_AT_MOST) this.keys.set(limit, (keys = new Map<string, Count>()))
    return keys && (keys.get(key) ?? added(keys, key, KEYS_COUNTED, false, true))
  }
}

/** Counts starts, ends and waits in this process, by limit, key, queue and task, in steps of 10 s. */
export class SeriesTally {
  readonly #nowMs: () => number
  #step: Step | null = null
  #ended: Step[] = []

  /** @param nowMs wall clock */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** Counts a start. */
  started(job: Pick<GrantedJob, 'task' | 'queue' | 'uses' | 'waitedFor' | 'startedUs' | 'availableUs'>): void {
    const step = this.#now()
    const { waitedFor } = job
    const waitedMs = waitedFor === null ? 0 : Math.max(0, job.startedUs - job.availableUs) / 1000
    step.all.start(waitedMs, 0)
    step.queue(job.queue)?.start(waitedMs, 0)
    const task = step.task(job.task)
    task?.start(waitedMs, 0)
    if (waitedFor !== null && waitedMs > 0) task?.cause(waitedFor.limit, waitedMs)
    for (const { limit, key, weight } of job.uses) {
      const ms = waitedFor?.limit === limit && waitedFor.key === key ? waitedMs : 0
      step.limit(limit)?.start(ms, weight)
      step.key(limit, key)?.start(ms, weight)
    }
  }

  /** Counts the end of a run. */
  ended({ task, queue }: { readonly task: string; readonly queue: string }, isFailed: boolean, ranMs: number): void {
    const step = this.#now()
    const at = classOf(ranMs)
    step.all.end(isFailed, at)
    step.queue(queue)?.end(isFailed, at)
    step.task(task)?.end(isFailed, at)
  }

  /** Counts jobs that had to wait for a budget. */
  denied({ limit, key }: { readonly limit: string; readonly key: string }, jobs: number): void {
    if (jobs <= 0) return
    const step = this.#now()
    for (const count of [step.all, step.limit(limit), step.key(limit, key)]) if (count) count.denied += jobs
  }

  /** Counts a claim. An idle process claims too; its quick claims write no row. */
  claimed(isFailed: boolean, tookMs: number): void {
    const step = this.#now()
    step.claims.end(isFailed, classOf(tookMs))
    if (isFailed || tookMs >= SLOW_CLAIM_MS) step.hasSlowClaims = true
  }

  /** Takes the rows of the steps that have ended. @param all takes the one at work too */
  take(all = false): NewSeriesRow[] {
    this.#now()
    if (all && this.#step) {
      this.#ended.push(this.#step)
      this.#step = null
    }
    const rows = this.#ended.flatMap(rowsOf)
    this.#ended = []
    return rows
  }

  #now(): Step {
    const nowMs = this.#nowMs()
    const step = this.#step
    if (step && nowMs >= step.at && nowMs < step.at + STEP_MS) return step
    if (step) this.#ended.push(step)
    return (this.#step = new Step(Math.floor(nowMs / STEP_MS) * STEP_MS))
  }
}

/** Undefined: there are too many names. */
function added(
  counts: Map<string, Count>,
  name: string,
  most: number,
  runs: boolean,
  waits: boolean,
): Count | undefined {
  if (counts.size >= most) return undefined
  const count = new Count(runs, waits)
  counts.set(name, count)
  return count
}

function countsOf(classes: Uint32Array | null): Record<string, number> | null {
  const found: Record<string, number> = {}
  let some = false
  for (const [at, count] of (classes ?? []).entries())
    if (count > 0) {
      found[at] = count
      some = true
    }
  return some ? found : null
}

function rowsOf({ at, all, claims, hasSlowClaims, queues, tasks, limits, keys }: Step): NewSeriesRow[] {
  const row = (part: string, counts: Iterable<readonly [string, Count]>): NewSeriesRow[] => {
    const tallies: Tallies = Object.fromEntries([...counts].map(([name, count]) => [name, count.tally]))
    return Object.keys(tallies).length === 0 ? [] : [{ step: STEP_MS, part, at, tallies }]
  }
  const isEmpty = queues.size === 0 && limits.size === 0
  return [
    ...(isEmpty ? [] : row('all', [['all', all]])),
    ...(isEmpty && !hasSlowClaims ? [] : row('claims', [['all', claims]])),
    ...row('queues', queues),
    ...row('tasks', tasks),
    ...row('limits', limits),
    ...[...keys].flatMap(([limit, each]) => row(`keys:${limit}`, busiest(each))),
  ]
}

function busiest(keys: ReadonlyMap<string, Count>): [string, Count][] {
  const weight = ({ starts, denied }: Count): number => starts + denied
  return [...keys].toSorted(([, a], [, b]) => weight(b) - weight(a)).slice(0, KEYS_KEPT)
}
