/** Counts of a short stretch of time, of one limit, key, queue or task: pure, and small as JSON. */

/** The counts of one stretch. Absent: 0. */
export interface Tally {
  /** Starts. */
  s?: number
  /** Completed runs. */
  c?: number
  /** Failed runs. */
  f?: number
  /** Jobs that had to wait for a budget. */
  d?: number
  /** Starts that had waited for a budget. */
  w?: number
  /** The sum of their waits, in ms. */
  m?: number
  /** Units charged. */
  u?: number
  /** Run times: the number of runs by class. */
  r?: Record<string, number>
  /** Waits for a budget: the number of starts by class. */
  h?: Record<string, number>
  /** Waits for budgets by limit, in ms; only of tasks. */
  b?: Record<string, number>
}

/** Tallies by name. */
export type Tallies = Record<string, Tally>

const SUMS = ['s', 'c', 'f', 'd', 'w', 'm', 'u'] as const
const RECORDS = ['r', 'h', 'b'] as const
/** Classes per doubling of a time: neighbours differ by a fifth. */
const PER_DOUBLING = 4

/** The number of classes: the last one holds all times above 34 years. */
export const CLASSES_AT_MOST = 200

/** The class of a time: a number that grows with it. Times below 1 µs share one. */
export function classOf(ms: number): number {
  return Math.min(CLASSES_AT_MOST - 1, Math.max(0, Math.ceil(Math.log2(Math.max(ms, 0.001) * 1000) * PER_DOUBLING)))
}

/** The longest time of a class, in ms. */
function timeOf(each: number): number {
  return 2 ** (each / PER_DOUBLING) / 1000
}

/** Adds one tally to another. */
export function addTally(to: Tally, from: Tally): void {
  for (const name of SUMS) if (from[name]) to[name] = (to[name] ?? 0) + from[name]
  for (const name of RECORDS)
    for (const [at, count] of Object.entries(from[name] ?? {})) {
      const counts = (to[name] ??= {})
      put(counts, at, (Object.hasOwn(counts, at) ? (counts[at] ?? 0) : 0) + count)
    }
}

/** Adds tallies to others, by name. */
export function addTallies(to: Tallies, from: Tallies): void {
  for (const [name, tally] of Object.entries(from)) {
    if (!Object.hasOwn(to, name)) put(to, name, {})
    addTally(to[name] as Tally, tally)
  }
}

/** Sets an own property of any name: an assignment to `__proto__` changes every object of the process. */
function put<T>(to: Record<string, T>, name: string, value: T): void {
  Object.defineProperty(to, name, { value, writable: true, enumerable: true, configurable: true })
}

/** The time that a share of the counted ones did not exceed, in ms; null: none was counted. */
export function quantile(counts: Readonly<Record<string, number>> | undefined, share: number): number | null {
  const classes = Object.entries(counts ?? {})
    .map(([at, count]) => [Number(at), count] as const)
    .toSorted(([a], [b]) => a - b)
  let left = Math.ceil(classes.reduce((sum, [, count]) => sum + count, 0) * share)
  for (const [at, count] of classes) {
    left -= count
    if (left <= 0) return timeOf(at)
  }
  return null
}
