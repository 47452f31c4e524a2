import type { Clock } from '../../base/clock.ts'
import type { Logger } from '../../base/logger.ts'
import type { Sluice } from '../../engine/engine.ts'
import { waitLists } from '../../engine/api/wait-lists.ts'
import type { Remote } from '../../remote/remote.ts'
import type { QueueCount } from '../../store/contract/queues.ts'
import type { SampledList, StoreSample } from '../../store/contract/sample.ts'
import type { Throttled } from '../../store/contract/waits.ts'
import type { HeldOpen } from '../held-open.ts'
import { ChangeFeed } from './change-feed.ts'
import { addTallies, addTally, type Tallies, type Tally } from '../../jobs/tally.ts'
import type { SeriesRow } from '../../store/contract/series.ts'
import { BackendsDown } from './backends-down.ts'
import { BulkRunner } from './bulk-runner.ts'
import { Costly } from '../../base/costly.ts'
import {
  byWaiting,
  type LimitFigures,
  limitFigures,
  type LimitSeries,
  type LimitWaits,
  limitWaits,
} from '../../engine/api/limit-figures.ts'
import { type Redact, type Redactor, redactor } from './redact.ts'

const STEP_MS = 10_000
const STEPS_OF_MINUTE = 6
const STEPS_OF_SPARK = 30
const STEPS_OF_FAILURES = 60
const FAILURES_AT_LEAST = 5
/** A full limit has starts in the first and the last two minutes, of which this share had to wait. */
const FULL_EDGE_MS = 120_000
const FULL_SHARE = 0.95
/** Limits whose wait lists are kept counted. */
const WAITS_AT_MOST = 100
/** The longest wait lists that views show. */
const WAIT_LISTS = 1000
/** Stores of at least so many jobs are sampled first. */
const LARGE = 100_000
/** Views that ask within this time share a sample. */
const SAMPLE_US = 5_000_000
/** Limits of which a sample met no wait are counted at once, if they have at most so many keys. */
const FEW_KEYS = 1000

/** The parts of a monitor. */
interface MonitorParts {
  readonly sluice: Sluice
  readonly remote: Remote
  readonly clock: Clock
  readonly logger: Logger
  readonly newId: () => string
  readonly heldOpen: HeldOpen
  /** Absent: values that look like secrets are hidden. */
  readonly redact?: Redact | undefined
}

/** A task of which many runs failed lately. */
export interface FailingTask {
  readonly task: string
  readonly failed: number
  readonly completed: number
}

/** The parts that all viewers of one server share. */
export class Monitor {
  readonly redact: Redactor
  readonly changes: ChangeFeed
  readonly bulks: BulkRunner
  readonly backendsDown: BackendsDown
  readonly #remote: Remote
  readonly #clock: Clock
  #sampled: { readonly sample: Promise<StoreSample | null>; readonly atUs: number } | null = null
  readonly #waits = new Map<string, Costly<LimitWaits>>()
  /** All limits with their figures. */
  readonly limits: Costly<LimitFigures[]>
  /** Jobs by queue and state. */
  readonly counts: Costly<readonly QueueCount[]>
  /** The parts of the figures of limits that all viewers share. */
  readonly figureSources: Parameters<typeof limitFigures>[2] = {
    seriesOf: (names) => this.limitSeries(names),
    waitsOf: (limit) => this.waitsOf(limit),
  }
  /** The longest wait lists. */
  readonly throttled: Costly<Omit<Throttled, 'next'>>

  /** @throws {SluiceError} `option.invalid` for `redact` */
  constructor({ sluice, remote, clock, logger, newId, heldOpen, redact }: MonitorParts) {
    this.#remote = remote
    this.#clock = clock
    this.redact = redactor(redact)
    this.changes = new ChangeFeed({ sluice, remote, clock })
    this.bulks = new BulkRunner({ sluice, remote, clock, logger, owner: newId(), changes: this.changes, heldOpen })
    this.backendsDown = new BackendsDown(sluice, remote, clock)
    this.limits = new Costly(clock, async () => limitFigures(sluice.limits, await remote.store(), this.figureSources))
    this.counts = new Costly(
      clock,
      async () => (await remote.store()).queueCounts(),
      async () => (await this.#sample())?.counts ?? null,
    )
    this.throttled = new Costly(
      clock,
      async () => waitLists(await remote.store(), WAIT_LISTS),
      async () => {
        const sample = await this.#sample()
        return sample && { waiting: sample.waiting, rows: sample.lists }
      },
    )
  }

  /** The jobs that wait for a limit, now or a little ago. */
  async waitsOf(limit: string): Promise<LimitWaits> {
    let waits = this.#waits.get(limit)
    if (!waits) {
      waits = new Costly(
        this.#clock,
        async () => limitWaits(await this.#remote.store(), limit),
        async () => sampledWaits(await this.#sample(), limit),
      )
      if (this.#waits.size >= WAITS_AT_MOST) this.#waits.delete(this.#waits.keys().next().value ?? '')
      this.#waits.set(limit, waits)
    }
    return (await waits.get()).value
  }

  /** Runs of the last full minute. */
  async perMinute(
    owns: (stored: string) => boolean,
  ): Promise<{ started: number; completed: number; failed: number; waited: number }> {
    const sum: Tally = {}
    for (const { tallies } of await this.#lately('queues', STEPS_OF_MINUTE))
      for (const [queue, tally] of Object.entries(tallies)) if (owns(queue)) addTally(sum, tally)
    return { started: sum.s ?? 0, completed: sum.c ?? 0, failed: sum.f ?? 0, waited: sum.w ?? 0 }
  }

  /** Tasks that fail often lately. */
  async failingTasks(): Promise<FailingTask[]> {
    const sums: Tallies = {}
    for (const { tallies } of await this.#lately('tasks', STEPS_OF_FAILURES)) addTallies(sums, tallies)
    return Object.entries(sums)
      .map(([task, { f: failed = 0, c: completed = 0 }]) => ({ task, failed, completed }))
      .filter(({ failed, completed }) => failed >= FAILURES_AT_LEAST && failed >= completed)
  }

  /** Limits that jobs have waited for all the time lately: from the first minutes to the last, nearly every start did. */
  async fullLimits(): Promise<readonly { readonly limit: string; readonly started: number }[]> {
    const rows = await this.#lately('limits', STEPS_OF_FAILURES)
    const { fromMs, toMs } = this.#range(STEPS_OF_FAILURES)
    const sums = new Map<string, { started: number; waited: number; firstMs: number; lastMs: number }>()
    for (const { at, tallies } of rows)
      for (const [limit, { s = 0, w = 0 }] of Object.entries(tallies)) {
        if (s === 0) continue
        const sum = sums.get(limit) ?? { started: 0, waited: 0, firstMs: at, lastMs: at }
        sums.set(limit, sum)
        sum.started += s
        sum.waited += w
        sum.lastMs = at
      }
    return [...sums]
      .filter(([, { started, waited, firstMs, lastMs }]) => {
        const isAllTheTime = firstMs < fromMs + FULL_EDGE_MS && lastMs >= toMs - FULL_EDGE_MS
        return isAllTheTime && waited >= FULL_SHARE * started
      })
      .map(([limit, { started }]) => ({ limit, started }))
  }

  /** The lately counted starts of limits. */
  async limitSeries(limits: readonly string[]): Promise<ReadonlyMap<string, LimitSeries>> {
    const rows = await this.#lately('limits', STEPS_OF_SPARK)
    const { fromMs, toMs } = this.#range(STEPS_OF_SPARK)
    const found = new Map<string, LimitSeries>()
    for (const limit of limits) {
      const spark = Array.from({ length: STEPS_OF_SPARK }, () => 0)
      const sum: Tally = {}
      for (const { at, tallies } of rows) {
        const tally = Object.hasOwn(tallies, limit) ? tallies[limit] : undefined
        if (!tally) continue
        spark[(at - fromMs) / STEP_MS] = tally.s ?? 0
        if (at >= toMs - STEPS_OF_MINUTE * STEP_MS) addTally(sum, tally)
      }
      const recent = { started: sum.s ?? 0, denied: sum.d ?? 0, waitedMs: Math.round(sum.m ?? 0) }
      found.set(limit, { recent, spark })
    }
    return found
  }

  close(): void {
    this.changes.close()
    this.bulks.close()
    this.backendsDown.close()
  }

  /** A sample of a large store; null: it is not large. */
  #sample(): Promise<StoreSample | null> {
    const nowUs = this.#clock.monotonicUs()
    if (!this.#sampled || nowUs - this.#sampled.atUs > SAMPLE_US) {
      const sample = this.#remote.store().then((store) => store.sample(LARGE))
      sample.catch(() => (this.#sampled = null))
      this.#sampled = { sample, atUs: nowUs }
    }
    return this.#sampled.sample
  }

  /** The last full steps: that at work is not written yet. */
  #range(steps: number): { fromMs: number; toMs: number } {
    const toMs = Math.floor(this.#clock.now() / STEP_MS) * STEP_MS
    return { fromMs: toMs - steps * STEP_MS, toMs }
  }

  async #lately(part: string, steps: number): Promise<readonly SeriesRow[]> {
    return (await this.#remote.store()).readSeries({ step: STEP_MS, part, ...this.#range(steps) })
  }
}

/** The jobs that wait for a limit by a sample; null: they are counted soon. */
function sampledWaits(sample: StoreSample | null, limit: string): LimitWaits | null {
  const totals = sample?.totals.find((each) => each.limit === limit)
  if (!sample || !totals || (totals.waiting === 0 && totals.keys <= FEW_KEYS)) return null
  const lists = sample.lists.filter((each) => each.limit === limit && each.worker === undefined)
  const longest = [...Map.groupBy(lists, ({ key }) => key).values()].map((some) => ({
    ...(some[0] as SampledList),
    waiting: some.reduce((sum, { waiting }) => sum + waiting, 0),
  }))
  return { totals, longest: longest.toSorted(byWaiting) }
}
