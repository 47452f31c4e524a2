// The promises of recurring work, said a second time: every point of a grid becomes one job, or is skipped for a reason that held.
import type { SeriesSpec } from './scenario.ts'

/** The fate of one occurrence: a job that arrived, or a reason that a claim reported. */
export interface Occurred {
  readonly dueMs: number
  readonly kind: 'fired' | 'missed' | 'overlap' | 'late'
}

/** Where two clocks stand at one instant. */
export interface Clocks {
  readonly nowUs: number
  readonly wallUs: number
}

/** Due times that are told on the wall are as exact as two readings of two clocks, or as a step that is too small to be one. */
const READING_US = 102_000

/** One series: its grid, and how far everything on it is accounted for. */
export class ReferenceSeries {
  readonly spec: SeriesSpec
  /** The first point of the grid that nothing is known of; on the store's clock for even distances, on the wall for a cron. */
  cursorUs: number
  ended = false
  runs = 0
  /** Jobs that arrived, by sequence. */
  readonly jobs: Set<number> = new Set()
  readonly #everyUs: number
  readonly #originUs: number
  /** An occurrence that is due at once need not be on the grid. */
  readonly #firstUs: number
  readonly #untilUs: number
  /** Missed occurrences waited for the end of a run: those that came due meanwhile met that run too. */
  held = false

  constructor(spec: SeriesSpec, clocks: Clocks) {
    this.spec = spec
    this.#everyUs = spec.everyMs * 1000
    this.#originUs = spec.kind === 'cron' ? 0 : clocks.nowUs
    const beginUs = this.#clock(clocks)
    this.cursorUs = spec.immediately ? beginUs : this.#after(beginUs)
    this.#firstUs = this.cursorUs
    this.#untilUs = spec.untilMs === null ? Infinity : clocks.wallUs + spec.untilMs * 1000
    this.ended = clocks.wallUs + this.cursorUs - beginUs >= this.#untilUs
  }

  /** How long until something is due; null: the series has ended. */
  leftUs(clocks: Clocks): number | null {
    return this.ended ? null : this.cursorUs - this.#clock(clocks)
  }

  /**
   * Accounts for what happened at one instant; answers what is wrong with it.
   * @param isLive whether a job of the series had not ended when the instant began, or does not end in it.
   * @param next where the store says that the series goes on; null: it has ended.
   */
  account(
    happened: readonly Occurred[],
    clocks: Clocks,
    isLive: boolean,
    next: { readonly dueUs: number | null; readonly holds: boolean },
  ): string | null {
    const { spec } = this
    let maySkip = this.held
    let moved = false
    for (const { kind, dueMs } of happened.toSorted((a, b) => a.dueMs - b.dueMs)) {
      const dueUs = this.#pointOf(dueMs * 1000, clocks)
      if (dueUs === null) return `${spec.name} tells of ${dueMs} ms, which is not on its grid`
      const what = `${spec.name}: the occurrence of ${dueUs} was ${kind}`
      if (dueUs > this.#clock(clocks)) return `${what} at ${this.#clock(clocks)}, too early`
      if (dueUs < this.cursorUs) return `${what}, but everything before ${this.cursorUs} is accounted for`
      if (dueUs > this.cursorUs && !maySkip) return `${what}, and nothing is known of that of ${this.cursorUs}`
      if (kind === 'fired') {
        if (++this.runs > (spec.maxRuns ?? Infinity)) return `${what}, run ${this.runs} of ${spec.maxRuns}`
        if (clocks.wallUs >= this.#untilUs) return `${what} after the end of the series`
        if (spec.overlap === 'skip' && isLive) return `${what} while the last one goes on`
      } else if (kind === 'missed' && dueUs === this.#clock(clocks)) return `${what} at that very instant`
      else if (kind === 'overlap' && (spec.overlap === 'allow' || (!isLive && this.jobs.size === 0)))
        return `${what}, but no other goes on`
      else if (kind === 'late' && !spec.mayBeLate) return `${what}, but nothing makes it so`
      maySkip = kind === 'missed' || (kind === 'overlap' && this.held)
      moved ||= kind === 'late'
      this.cursorUs = this.#after(dueUs)
    }
    // One that was skipped for its limits says when they let it go on.
    if (moved || maySkip) this.resume(next.dueUs)
    this.held = next.holds
    return next.dueUs === null ? this.#end(clocks, moved) : null
  }

  resume(dueUs: number | null): void {
    if (dueUs !== null) this.cursorUs = Math.max(this.cursorUs, dueUs)
  }

  /** @param late its limits let it go on only later: perhaps not before its end. */
  #end(clocks: Clocks, late: boolean): string | null {
    if (this.ended) return null
    this.ended = true
    if (late && this.#untilUs < Infinity) return null
    const endUs = this.#untilUs - READING_US
    if (this.runs >= (this.spec.maxRuns ?? Infinity) || clocks.wallUs >= endUs) return null
    const dueWallUs = this.cursorUs + clocks.wallUs - this.#clock(clocks)
    return dueWallUs >= endUs
      ? null
      : `${this.spec.name} has ended after ${this.runs} runs, before its time (cursor ${this.cursorUs}, ${JSON.stringify(clocks)}, until ${this.#untilUs})`
  }

  #clock({ nowUs, wallUs }: Clocks): number {
    return this.spec.kind === 'cron' ? wallUs : nowUs
  }

  /** The first point of the grid after an instant. */
  #after(us: number): number {
    return this.#originUs + (Math.floor((us - this.#originUs) / this.#everyUs) + 1) * this.#everyUs
  }

  /** The point of the grid that is told as a time on the wall; null: none is near it. */
  #pointOf(wallUs: number, clocks: Clocks): number | null {
    const us = wallUs - (this.spec.kind === 'cron' ? 0 : clocks.wallUs - clocks.nowUs)
    if (Math.abs(us - this.#firstUs) <= 1000) return this.#firstUs
    const pointUs = this.#originUs + Math.round((us - this.#originUs) / this.#everyUs) * this.#everyUs
    return Math.abs(us - pointUs) <= (this.spec.kind === 'cron' ? 0 : READING_US) ? pointUs : null
  }
}
