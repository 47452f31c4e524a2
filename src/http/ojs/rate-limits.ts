import { z } from 'zod'
import type { Duration } from '../../base/duration.ts'
import type { BucketView } from '../../engine/limits-api.ts'
import type { Rule } from '../../policy/limit.ts'
import type { PolicyChange } from '../../policy/override.ts'
import type { LimitDefinition } from '../../store/store.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { notFound, unprocessable } from '../refusal.ts'
import { isOwn, ownName, splitName } from '../tenant.ts'
import { pageOf } from './pages.ts'
import { definitionsOf, isThrottle, throttleOf } from './rate-limit-policy.ts'
import { Instant, instantMs, PageQuery, RateLimit, RateLimitKey } from './schemas.ts'

const Params = z.object({ key: RateLimitKey })
const NONE = 'unspecified'

/** What is left of a budget, and who waits for it. */
export const getRateLimit: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/rate-limits/:key',
  name: 'getRateLimit',
  summary: 'Inspect a rate limit.',
  scope: 'client',
  params: Params,
  query: z.object({ partition: z.string().max(1024).optional() }),
  answers: { 200: 'The limit as it stands.' },
  async run(call) {
    const { key } = call.params
    return ok(await limitJson(call, await definedLimit(call, key), call.query.partition))
  },
})

/** Lists rate limits. */
export const listRateLimits: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/rate-limits',
  name: 'listRateLimits',
  summary: 'List rate limits.',
  scope: 'client',
  query: PageQuery,
  answers: { 200: 'The limits of the tenant.' },
  async run(call) {
    const own = (await call.server.remote.limits()).filter(({ name }) => isOwn(call.tenant, name) && !isThrottle(name))
    const { items, pagination } = pageOf(own, call.query)
    return ok({ items: await Promise.all(items.map((each) => limitJson(call, each, undefined))), pagination })
  },
})

/** Defines a rate limit, or overrides numbers of it, for good or for a time. */
export const putRateLimit: Operation = operation({
  method: 'PUT',
  path: '/ojs/v1/rate-limits/:key',
  name: 'putRateLimit',
  summary: 'Define a rate limit, or override it until a time.',
  scope: 'admin',
  params: Params,
  body: z.intersection(
    RateLimit,
    z.looseObject({ expires_at: Instant.nullish(), partition: z.string().max(1024).optional() }),
  ),
  answers: { 200: 'The limit as it stands.' },
  async run(call) {
    const { body, params, server } = call
    const name = ownName(call.tenant, params.key)
    const known = (await server.remote.limits()).find((each) => each.name === name)
    if (!known && typeof body.expires_at === 'string') throw notFound('rate limit', params.key)
    if (known) await override(call, known, body)
    else await server.remote.define(defined(body, name))
    server.remote.stir()
    return ok(await limitJson(call, await definedLimit(call, params.key), body.partition))
  },
})

/** A limit that a call names. @throws Refusal 404 */
async function definedLimit(
  { server, tenant }: Call<unknown, unknown, unknown>,
  key: string,
): Promise<LimitDefinition> {
  const name = ownName(tenant, key)
  const found = (await server.remote.limits()).find((each) => each.name === name)
  if (!found) throw notFound('rate limit', key)
  return found
}

/** The limits that an admin defines under a name. @throws Refusal 422 where it limits nothing */
export function defined(body: z.output<typeof RateLimit>, name: string): LimitDefinition[] {
  const found = definitionsOf(body, name, 0)
  if (found.length === 0) throw unprocessable('give at least one of concurrency, rate and throttle')
  return found
}

async function override(
  { server }: Call<unknown, unknown, unknown>,
  { name, policy }: LimitDefinition,
  body: z.output<typeof RateLimit> & { expires_at?: string | null | undefined; partition?: string | undefined },
): Promise<void> {
  const wanted = definitionsOf(body, name, 0)
  const change: PolicyChange = {
    ...(body.concurrency !== undefined && { concurrency: body.concurrency }),
    ...(body.on_limit && { onLimit: body.on_limit }),
    ...numbersOf(wanted.find((each) => each.name === name)?.policy.rule ?? null, policy.rule),
  }
  const until = typeof body.expires_at === 'string' ? instantMs(body.expires_at, server.clock.now()) : null
  if (until !== null && until <= server.clock.now()) throw unprocessable('expires_at is past; give a time ahead')
  const options = { by: 'http', ...(until !== null && { until: new Date(until) }) }
  await server.sluice.limits.override(name, body.partition, change, options)
  const spacing = wanted.find((each) => each.name === throttleOf(name))
  if (spacing) await server.remote.define([spacing])
}

/** What an override has to say so that one rule takes the numbers of another of its kind. */
function numbersOf(wanted: Rule | null, has: Rule | null): PolicyChange {
  if (!wanted) return {}
  if (wanted.kind === 'sliding' && has?.kind === 'rate')
    return { rate: wanted.max, per: (wanted.periodUs / 1000) satisfies Duration }
  if (wanted.kind === 'sliding') return { max: wanted.max, per: wanted.periodUs / 1000 }
  return wanted.kind === 'spacing' ? { every: wanted.everyUs / 1000 } : {}
}

async function limitJson(
  { server }: Call<unknown, unknown, unknown>,
  { name, policy }: LimitDefinition,
  partition: string | undefined,
): Promise<Record<string, unknown>> {
  const buckets = await server.sluice.limits.inspect(name, partition)
  const bucket = buckets[0]
  const { rule } = policy
  const throttled =
    rule?.kind === 'spacing'
      ? { rule, bucket }
      : await server.remote
          .limits()
          .then((all) => all.find((each) => each.name === throttleOf(name)))
          .then(async (found) =>
            found?.policy.rule?.kind === 'spacing'
              ? { rule: found.policy.rule, bucket: (await server.sluice.limits.inspect(found.name))[0] }
              : null,
          )
  const change = bucket?.overrides.findLast((each) => each.change?.concurrency !== undefined)?.change
  const permits = change?.concurrency === undefined ? policy.concurrency : change.concurrency
  const active = sum(buckets, 'active')
  return {
    key: splitName(name).name,
    on_limit: policy.onLimit,
    ...(permits !== null && {
      concurrency: { limit: permits, active, available: Math.max(0, permits - active) },
    }),
    ...(rule && rule.kind !== 'spacing' && { rate: rateJson(rule, bucket) }),
    ...(throttled && {
      throttle: {
        ...pace(throttled.rule.everyUs),
        next_allowed_at: throttled.bucket?.nextStart?.toISOString() ?? null,
      },
    }),
    waiting_count: sum(buckets, 'waiting'),
    overrides: bucket?.overrides.map(({ kind, change: what, until, by, reason }) => ({
      kind,
      change: what,
      expires_at: until,
      by,
      reason,
    })),
    partitions: buckets.length,
  }
}

function rateJson(rule: Exclude<Rule, { kind: 'spacing' }>, bucket: BucketView | undefined): Record<string, unknown> {
  const limit = rule.kind === 'rate' ? rule.rate : rule.max
  const periodUs = rule.kind !== 'fixed' ? rule.periodUs : rule.window.align === 'epoch' ? rule.window.periodUs : null
  const capacity = bucket?.capacity ?? limit
  return {
    limit: rule.kind === 'rate' ? rule.rate : capacity,
    period: periodUs === null ? NONE : `PT${periodUs / 1e6}S`,
    current_count: Math.max(0, capacity - (bucket?.available ?? capacity)),
    window_resets_at: bucket?.nextStart?.toISOString() ?? null,
  }
}

function pace(everyUs: number): { limit: number; period: string } {
  return { limit: 1, period: `PT${everyUs / 1e6}S` }
}

function sum(buckets: readonly BucketView[], of: 'active' | 'waiting'): number {
  return buckets.reduce((total, bucket) => total + bucket[of], 0)
}
