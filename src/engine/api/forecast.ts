import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { brief, checkOptions } from '../../base/options.ts'
import { adopt } from '../../policy/limits/bucket.ts'
import type { Limit } from '../../policy/limits/define.ts'
import type { Pile } from '../../policy/forecast/drain.ts'
import { belowHeadroom } from '../../policy/limits/headroom.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { enforced } from '../../policy/limits/shadow.ts'
import { normalisePolicy } from '../../policy/limits/normalise.ts'
import { SHARED_KEY } from '../../policy/limits/partition-key.ts'
import type { Policy } from '../../policy/limits/policy.ts'
import {
  type BacklogSpec,
  type Forecast,
  forecastOf,
  freshSituation,
  runTimeUs,
  type Situation,
} from '../../policy/forecast/what-if.ts'
import { keyOf, nameOf } from '../../policy/limits/change-terms.ts'
import type { Store } from '../../store/contract/store.ts'
import type { BucketBacklog } from '../../store/contract/waits.ts'

/** The options of a forecast for a stored limit. */
export interface LiveForecastOptions {
  /** This key only; default: all keys. */
  readonly key?: string | number
  /** The policy of the forecast; default: the limit's own. */
  readonly policy?: Policy | string
  /** A backlog before unused buckets; default: the jobs that wait now, before the buckets in their present state. */
  readonly backlog?: number | BacklogSpec
  /** A second limit without keys that the whole backlog needs too. */
  readonly shared?: Limit | string
  /** The run time of each job. A forecast of a limit with `concurrency` needs it. */
  readonly runTime?: Duration
}

/**
 * Estimates the time that the backlog of a stored limit takes.
 *
 * @throws {SluiceError} `limit.unknown`, and the codes of `forecast`
 */
export async function forecastLimit(
  store: Store,
  limit: Limit | string,
  options: LiveForecastOptions = {},
): Promise<Forecast> {
  checkOptions(options, ['key', 'policy', 'backlog', 'shared', 'runTime'], 'sluice.forecast')
  const { key, policy, backlog, shared, runTime } = options
  const name = nameOf(limit)
  const to = policy === undefined ? null : normalisePolicy(policy, `forecast of limit ${name}`)
  const stored = await store.backlog(name, keyOf(key, name) ?? undefined)
  if (!stored) throw unknown(name)
  const other = shared === undefined ? null : await sharedBucket(store, nameOf(shared))
  const nowUs = store.nowUs()
  if (backlog !== undefined) {
    const own = withShareOf(await policyOf(store, name), to)
    const at = new Date(nowUs / 1000)
    return forecastOf(
      freshSituation(own, other && other.policy, { backlog, at, ...(runTime === undefined ? {} : { runTime }) }),
    )
  }
  const piles = stored.filter(({ jobs }) => jobs > 0).flatMap((each) => pileOf(each, to, nowUs))
  const joint = stored.some(
    ({ jobs, needs, policy: own }) => jobs > 0 && needs > 1 + (other ? 1 : 0) + (own?.of ? 1 : 0),
  )
  return forecastOf({ piles, shared: other, nowUs, runUs: runTimeUs(runTime), joint })
}

function pileOf(
  { policy: stored, state, active, jobs, units, even, lowest, highest }: BucketBacklog,
  to: LimitPolicy | null,
  nowUs: number,
): Pile[] {
  if (!stored) return []
  const from = enforced(stored)
  const backlog = even ? { count: jobs, weight: units / jobs } : { count: units, weight: 1 }
  const pile = belowHeadroom(
    { policy: withShareOf(from, to), state: to ? adopt(from, to, state, nowUs) : state },
    lowest,
    highest,
  )
  return [{ ...pile, active, backlog, even, jobs, times: 1 }]
}

/** Another policy leaves the common limit to which each start pays. @param to null: the policy itself */
function withShareOf(from: LimitPolicy, to: LimitPolicy | null): LimitPolicy {
  return to && from.of ? { ...to, of: from.of } : (to ?? from)
}

async function sharedBucket(store: Store, name: string): Promise<NonNullable<Situation['shared']>> {
  const [found] = (await store.backlog(name, SHARED_KEY)) ?? []
  if (found?.policy) return { policy: found.policy, state: found.state, active: found.active }
  const policy = await policyOf(store, name)
  const nowUs = store.nowUs()
  const [fresh] = freshSituation(policy, null, { backlog: 1, at: new Date(nowUs / 1000) }).piles
  if (!fresh) throw unknown(name)
  return { policy, state: fresh.state, active: 0 }
}

async function policyOf(store: Store, name: string): Promise<LimitPolicy> {
  const found = (await store.limits()).find((each) => each.name === name)
  if (!found) throw unknown(name)
  return found.policy
}

function unknown(name: string): SluiceError {
  return new SluiceError('limit.unknown', `The limit ${brief(name)} is not defined in this store.`)
}
