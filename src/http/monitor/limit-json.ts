import { z } from 'zod'
import type { BucketView } from '../../engine/api/bucket-view.ts'
import type { LimitView } from '../../engine/api/limits.ts'
import type { OverrideView } from '../../engine/api/override-view.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import { policyInWords } from '../../policy/limits/policy-words.ts'
import type { Call } from '../operation.ts'
import { toldOverride } from '../told-overrides.ts'
import { Time, timeOf, TimeOrNull } from './monitor-operation.ts'
import type { LimitFigures } from '../../engine/api/limit-figures.ts'
import { onlyKey, seenBy, seesKey } from './seen.ts'

type AnyCall = Call<unknown, unknown, unknown>

/** An override or a pause, in an answer. */
export const OverrideJson: z.ZodType = z.object({
  limit: z.string(),
  key: z.string().nullable().meta({ description: 'Null: all keys.' }),
  kind: z.enum(['override', 'pause']),
  change: z.looseObject({}).nullable(),
  since: Time,
  until: TimeOrNull,
  by: z.string().nullable(),
  reason: z.string().nullable(),
  ended: TimeOrNull,
  endedBy: z.string().nullable(),
})
OverrideJson.register(z.globalRegistry, { id: 'MonitorOverride' })

/** One bucket, in an answer. */
export const BucketJson: z.ZodType = z.object({
  key: z.string().nullable().meta({ description: 'Null: the one bucket of a limit without keys.' }),
  worker: z.number().nullable().optional(),
  available: z.number(),
  capacity: z.number().meta({ description: '0: a backend keeps it, to which the answering process has no way.' }),
  used: z.number().meta({ description: 'Units of the capacity that could not start now.' }),
  debt: z.number(),
  active: z.number().meta({ description: 'Permits held by running jobs.' }),
  waiting: z.number(),
  nextStart: TimeOrNull,
  drained: TimeOrNull,
  headroom: z.object({ units: z.number(), priority: z.number() }).nullable(),
  guardMs: z.number().optional(),
  guarantee: z
    .object({ limit: z.string(), from: TimeOrNull })
    .optional()
    .meta({ description: 'The common limit of which it has a share, and when its next start is within that.' }),
  overrides: z.array(OverrideJson),
})
BucketJson.register(z.globalRegistry, { id: 'MonitorBucket' })

/** One limit, in an answer. */
export const LimitJson: z.ZodType = z.object({
  name: z.string(),
  rule: z.string().meta({ description: 'The policy in words.' }),
  text: z.string().nullable().meta({ description: 'The policy as a text that can be edited; null: it has none.' }),
  policy: z.looseObject({}),
  scope: z.enum(['fleet', 'worker']),
  onLimit: z.enum(['wait', 'reschedule', 'drop']),
  version: z.number(),
  unreadable: z.boolean(),
  keys: z.number(),
  heldKeys: z.number().meta({ description: 'Keys with jobs that wait.' }),
  waiting: z.number(),
  active: z.number(),
  onlyKey: z.string().nullable().meta({
    description: 'The only key that a tenant sees of a limit that all tenants share; null: every key.',
  }),
  bucket: BucketJson.nullable().meta({ description: 'The one bucket of a limit without keys; null: it has keys.' }),
  nextStart: TimeOrNull,
  drained: TimeOrNull.meta({ description: 'By the longest wait list.' }),
  paused: z.boolean(),
  overrides: z.array(OverrideJson),
  recent: z.object({ started: z.number(), denied: z.number(), waitedMs: z.number() }),
  spark: z.array(z.number()).meta({ description: 'Starts in each of the last 30 steps of 10 s, oldest first.' }),
  backend: z.object({
    kind: z.string().meta({ description: 'The backend of its budgets, or the store.' }),
    healthy: z.boolean().meta({ description: 'False: a process of the store cannot reach it. Others may.' }),
  }),
})
LimitJson.register(z.globalRegistry, { id: 'MonitorLimit' })

/** An override or a pause as JSON, by the caller's name of its limit. */
export function overrideJson(call: AnyCall, override: OverrideView): object {
  const { since, until, ended, change, ...rest } = toldOverride(call, override)
  return {
    ...rest,
    limit: seenBy(call).name(rest.limit),
    change: change && { ...change },
    since: timeOf(since),
    until: timeOf(until),
    ended: timeOf(ended),
  }
}

const NO_FIGURES: Pick<LimitFigures, 'totals' | 'longest' | 'series'> = {
  totals: undefined,
  longest: null,
  series: { recent: { started: 0, denied: 0, waitedMs: 0 }, spark: Array.from({ length: 30 }, () => 0) },
}

/** A bucket as JSON. */
export function bucketJson(call: AnyCall, bucket: BucketView): object {
  const { key, worker, debt, active, waiting, nextStart, drained, headroom, guardUs, guarantee } = bucket
  // The store has no numbers of a budget that a backend keeps, and this process may have no way to that backend.
  const [available, capacity] = [bucket.available, bucket.capacity].map((each) =>
    Number.isFinite(each) ? each : 0,
  ) as [number, number]
  return {
    key,
    ...(worker !== undefined && { worker }),
    available,
    capacity,
    used: Math.max(0, capacity - available),
    debt,
    active,
    waiting,
    nextStart: timeOf(nextStart),
    drained: timeOf(drained),
    headroom: headroom && { units: headroom.units, priority: headroom.priority },
    ...(guardUs !== undefined && { guardMs: guardUs / 1000 }),
    ...(guarantee && { guarantee: { limit: seenBy(call).name(guarantee.limit), from: timeOf(guarantee.from) } }),
    overrides: bucket.overrides.map((each) => overrideJson(call, each)),
  }
}

/**
 * A limit with its figures as JSON. Of one that all tenants share by their keys, a tenant gets no figures here: they
 * would be those of others too. Its own key has them.
 */
export function limitJson(call: AnyCall, figures: LimitFigures): object {
  const only = onlyKey(call, figures.limit.name)
  const { limit, totals, bucket, longest, series, backend } = only === null ? figures : { ...figures, ...NO_FIGURES }
  const { name, policy, version, unreadable = false, overrides } = limit
  const waiting = totals?.waiting ?? 0
  const first = bucket ?? longest
  return {
    name: seenBy(call).name(name),
    rule: ruleInWords(limit),
    text: textOf(limit),
    policy: { ...policy },
    scope: policy.scope ?? 'fleet',
    onLimit: policy.onLimit,
    version,
    unreadable,
    keys: totals?.keys ?? 0,
    heldKeys: totals?.heldKeys ?? 0,
    waiting,
    active: totals?.active ?? 0,
    onlyKey: only,
    bucket: bucket && bucketJson(call, bucket),
    nextStart: timeOf(totals?.nextStart ?? (waiting > 0 ? first?.nextStart : null)),
    drained: waiting > 0 ? timeOf(first?.drained) : null,
    paused: overrides.some((each) => each.kind === 'pause' && each.key === null),
    overrides: overrides
      .filter(({ key }) => key === null || seesKey(call, name, key))
      .map((each) => overrideJson(call, each)),
    recent: series.recent,
    spark: [...series.spark],
    backend: backendJson(call, policy?.backend ?? backend),
  }
}

function backendJson(call: AnyCall, kind: string): object {
  return { kind, healthy: !call.server.monitor.backendsDown.has(kind) }
}

function ruleInWords({ policy, unreadable }: LimitView): string {
  return unreadable ? 'unreadable: nothing starts until it is defined again' : policyInWords(policy)
}

/** Words that the grammar of policies reads back: it knows neither a reserve, nor a scope, nor a share of another limit. */
function textOf({ policy, unreadable }: LimitView): string | null {
  const isPlain = (each: LimitPolicy): boolean =>
    each.headroom === undefined && each.of === undefined && each.scope !== 'worker' && each.concurrency !== 0
  return !unreadable && isPlain(policy) ? policyInWords(policy) : null
}
