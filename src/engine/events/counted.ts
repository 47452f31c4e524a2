/** Counts and times of this process since its start. Labels are names, and never more than a bound of them. */

/** The most series of one measure. */
export const SERIES_AT_MOST = 1000
/** The name under which later series are counted together. */
export const OTHER = 'other'

/** The bounds of classes of times, in s. The last class has none. */
export const SECONDS: readonly number[] = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600,
]

/** One series of a measure. */
export interface Counted<V> {
  readonly labels: readonly string[]
  readonly value: V
}

/** Times of one series. */
export interface Times {
  /** The number of times by class: one more than bounds. */
  readonly classes: readonly number[]
  readonly count: number
  /** In s. */
  readonly sum: number
}

/** The name of an outcome, as labels have it. */
export function outcomeOf(isFailed: boolean): 'failed' | 'completed' {
  return isFailed ? 'failed' : 'completed'
}

/** The labels of one series: one or two. */
export type Labels = readonly [first: string, second?: string]

/** The series of one measure, by their labels. A join of labels for each job would cost more than the count. */
class Series<V> {
  readonly #series = new Map<string, Map<string, V>>()
  readonly #all: Counted<V>[] = []
  readonly #first: () => V

  constructor(first: () => V) {
    this.#first = first
  }

  of(labels: Labels): V {
    return this.#known(labels) ?? this.#added(this.#all.length < SERIES_AT_MOST ? labels : others(labels))
  }

  #known([first, second = '']: Labels): V | undefined {
    return this.#series.get(first)?.get(second)
  }

  #added(labels: Labels): V {
    const known = this.#known(labels)
    if (known) return known
    const [first, second = ''] = labels
    const value = this.#first()
    const seconds = this.#series.get(first) ?? new Map<string, V>()
    this.#series.set(first, seconds.set(second, value))
    this.#all.push({ labels: labels as readonly string[], value })
    return value
  }

  get all(): readonly Counted<V>[] {
    return [...this.#all]
  }
}

function others({ length }: Labels): Labels {
  return length === 1 ? [OTHER] : [OTHER, OTHER]
}

/** A sum that only grows, by labels. */
export class Counter {
  readonly #series = new Series(() => ({ sum: 0 }))

  add(labels: Labels, by = 1): void {
    this.#series.of(labels).sum += by
  }

  get all(): readonly Counted<number>[] {
    return this.#series.all.map(({ labels, value }) => ({ labels, value: value.sum }))
  }
}

/** Times by class, by labels. */
export class Timer {
  readonly #series = new Series(() => ({ classes: [...SECONDS, Infinity].map(() => 0), count: 0, sum: 0 }))

  add(labels: Labels, seconds: number): void {
    const times = this.#series.of(labels)
    const at = SECONDS.findIndex((bound) => seconds <= bound)
    const place = at === -1 ? SECONDS.length : at
    times.classes[place] = (times.classes[place] ?? 0) + 1
    times.count++
    times.sum += seconds
  }

  get all(): readonly Counted<Times>[] {
    return this.#series.all
  }
}
