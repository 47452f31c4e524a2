import { SluiceError } from '../../base/errors.ts'
import type { BucketView } from './bucket-view.ts'
import type { LimitsApi, LimitView } from './limits.ts'
import type { Store } from '../../store/contract/store.ts'
import type { KeyCount, LimitTotals } from '../../store/contract/limits.ts'

const AT_ONCE = 16

type LimitLooks = Pick<LimitsApi, 'list' | 'inspect'>

/** All budgets of a limit together. */
export interface Totals {
  readonly keys: number
  readonly heldKeys: number
  readonly active: number
  readonly waiting: number
  readonly nextStart: Date | null
}

/** A limit's lately counted starts. */
export interface LimitSeries {
  readonly recent: { readonly started: number; readonly denied: number; readonly waitedMs: number }
  readonly spark: readonly number[]
}

/** A limit with its figures in the store. */
export interface LimitFigures {
  readonly limit: LimitView
  /** Absent: it was never used. */
  readonly totals: Totals | undefined
  /** The one bucket of a limit without keys; null: it has keys. */
  readonly bucket: BucketView | null
  /** The bucket with the longest wait list; null: no job waits for a key. */
  readonly longest: BucketView | null
  readonly series: LimitSeries
  /** The kind of the store that keeps its budgets. */
  readonly backend: string
}

/** The figures of all limits, or of one. The time grows with the number of jobs that wait. */
export async function limitFigures(
  api: LimitLooks,
  store: Store,
  {
    seriesOf,
    waitsOf = (limit) => limitWaits(store, limit),
  }: {
    readonly seriesOf: (limits: readonly string[]) => Promise<ReadonlyMap<string, LimitSeries>>
    /** Default: counts the wait lists now. */
    readonly waitsOf?: (limit: string) => Promise<LimitWaits>
  },
  only?: string,
): Promise<LimitFigures[]> {
  const limits = (await api.list()).filter(({ name }) => only === undefined || name === only)
  const names = limits.map(({ name }) => name)
  const series = await seriesOf(names)
  const found: LimitFigures[] = []
  for (let from = 0; from < limits.length; from += AT_ONCE)
    found.push(
      ...(await Promise.all(
        limits.slice(from, from + AT_ONCE).map(async (limit) => {
          const { totals: sums, longest } = await waitsOf(limit.name)
          const key = longest[0]?.key
          const isSingle = (sums?.keys ?? 0) <= 1
          const [first = null] = isSingle
            ? await inspected(api, limit, undefined)
            : key === undefined
              ? []
              : await inspected(api, limit, key)
          const unused = isSingle && first === null ? ((await inspected(api, limit, ''))[0] ?? null) : null
          const bucket = first?.key === null ? first : unused
          return {
            limit,
            totals: sums && {
              ...sums,
              nextStart: sums.nextStartUs === null ? null : new Date(sums.nextStartUs / 1000),
            },
            bucket,
            longest: bucket ? null : first,
            series: series.get(limit.name) ?? NO_SERIES,
            backend: store.backend,
          }
        }),
      )),
    )
  return found
}

const NO_SERIES: LimitSeries = { recent: { started: 0, denied: 0, waitedMs: 0 }, spark: [] }

/** A limit may be removed meanwhile, and an unreadable one has no buckets. */
async function inspected(api: LimitLooks, limit: LimitView, key: string | undefined): Promise<BucketView[]> {
  if (limit.unreadable) return []
  try {
    return await api.inspect(limit.name, key)
  } catch (error) {
    // The others are shown all the same, and the overview names the backend.
    if (error instanceof SluiceError && error.code === 'limiter.backend_down') return []
    throw error
  }
}

/** Keys that are counted in one statement: some ms, in which an embedded store does nothing else. */
const PART = 1000
/** The longest wait lists that are kept of one limit. */
const KEPT = 2000

/** The jobs that wait for the budgets of one limit. */
export interface LimitWaits {
  /** Absent: it was never used. */
  readonly totals: Omit<LimitTotals, 'limit'> | undefined
  /** Keys with waiting jobs, the longest wait lists first; at most 2,000. */
  readonly longest: readonly KeyCount[]
}

/**
 * Counts the jobs that wait for a limit, key by key. The time grows with them; between two parts the process turns to
 * other work.
 */
export async function limitWaits(store: Store, limit: string): Promise<LimitWaits> {
  let [keys, active, waiting, heldKeys, soonestUs] = [0, 0, 0, 0, Infinity]
  let longest: KeyCount[] = []
  for (let after: KeyCount | null = null; ;) {
    const part = await store.limitKeys({ limit, sort: 'key', after, rows: PART })
    for (const each of part) {
      keys++
      active += each.active
      if (each.waiting === 0) continue
      waiting += each.waiting
      heldKeys++
      soonestUs = Math.min(soonestUs, each.nextStartUs ?? Infinity)
      longest.push(each)
    }
    after = part.at(-1) ?? null
    if (longest.length > 2 * KEPT) longest = sorted(longest)
    if (part.length < PART) break
    await new Promise((resolve) => setImmediate(resolve))
  }
  const nextStartUs = soonestUs === Infinity ? null : soonestUs
  return { totals: keys === 0 ? undefined : { keys, active, waiting, heldKeys, nextStartUs }, longest: sorted(longest) }
}

/** Orders the longest wait lists first, then by key. */
export function byWaiting(a: Pick<KeyCount, 'key' | 'waiting'>, b: Pick<KeyCount, 'key' | 'waiting'>): number {
  return b.waiting - a.waiting || (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)
}

function sorted(keys: readonly KeyCount[]): KeyCount[] {
  return keys.toSorted(byWaiting).slice(0, KEPT)
}
