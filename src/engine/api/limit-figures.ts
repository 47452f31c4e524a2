import { SluiceError } from '../../base/errors.ts'
import type { BucketView } from './bucket-view.ts'
import type { LimitsApi, LimitView } from './limits.ts'
import type { Store } from '../../store/contract/store.ts'

/** Wait lists that are looked at for the longest of each limit. */
const LISTS_AT_MOST = 10_000
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
  seriesOf: (limits: readonly string[]) => Promise<ReadonlyMap<string, LimitSeries>>,
  only?: string,
): Promise<LimitFigures[]> {
  const limits = (await api.list()).filter(({ name }) => only === undefined || name === only)
  const names = limits.map(({ name }) => name)
  const totals = new Map((await store.limitTotals(names)).map((each) => [each.limit, each]))
  const longest = new Map<string, string>()
  for (const { limit, key, worker } of (await store.throttled(LISTS_AT_MOST)).rows)
    if (worker === undefined && !longest.has(limit)) longest.set(limit, key)
  const series = await seriesOf(names)
  const found: LimitFigures[] = []
  for (let from = 0; from < limits.length; from += AT_ONCE)
    found.push(
      ...(await Promise.all(
        limits.slice(from, from + AT_ONCE).map(async (limit) => {
          const sums = totals.get(limit.name)
          const key = longest.get(limit.name)
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
