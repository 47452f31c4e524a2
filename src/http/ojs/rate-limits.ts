import { z } from 'zod'
import { viewOfOverride } from '../../engine/api/override-view.ts'
import { view } from '../../policy/limits/bucket.ts'
import { keyOf } from '../../policy/limits/change-terms.ts'
import { guardsOf, type LimitPolicy, type LimitDefinition } from '../../policy/limits/limit.ts'
import type { Rule, SpacingRule } from '../../policy/rules/rule.ts'
import { SHARED_KEY } from '../../policy/limits/partition-key.ts'
import { applyFittingOverride, changeInText, isOfKind, type PolicyChange } from '../../policy/limits/override.ts'
import type { Override, LimitTotals } from '../../store/contract/limits.ts'
import type { BucketBacklog } from '../../store/contract/waits.ts'
import { denied, sharedByAll } from '../access.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { notFound, unprocessable } from '../refusal.ts'
import { toldOverride } from '../told-overrides.ts'
import { isOwn, ownName, splitName } from '../tenant.ts'
import { timeOf } from './job-json.ts'
import { pageOf } from './pages.ts'
import { definitionsOf, guardMs } from './rate-limit-policy.ts'
import { instantMs, PageQuery, RateLimitChange, RateLimitKey, type RateLimitJson } from './schemas.ts'

const Params = z.object({ key: RateLimitKey })
const NONE = 'unspecified'

/** Reads the remaining budget of a limit, and its waiting jobs. */
export const getRateLimit: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/rate-limits/:key',
  name: 'getRateLimit',
  summary: 'Inspect a rate limit.',
  params: Params,
  query: z.object({ partition: z.string().max(1024).optional() }),
  answers: { 200: 'The effective limit.' },
  async run(call) {
    const { key } = call.params
    return ok(await limitJson(call, await definedLimit(call, key), partitionOf(call, key)))
  },
})

/** Lists rate limits. */
export const listRateLimits: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/rate-limits',
  name: 'listRateLimits',
  summary: 'List rate limits with their definitions and their waiting jobs.',
  query: PageQuery,
  answers: { 200: 'The limits of the tenant.' },
  async run(call) {
    const own = (await (await call.server.remote.store()).limits()).filter(
      ({ name }) => isOwn(call.tenant, name) || call.server.limits.isShared(name),
    )
    const { items, pagination } = pageOf(own, call.query)
    const store = await call.server.remote.store()
    const totals = new Map((await store.limitTotals(items.map(({ name }) => name))).map((each) => [each.limit, each]))
    return ok({ items: items.map((each) => summaryJson(each, totals.get(each.name))), pagination })
  },
})

/** Defines a rate limit, or overrides its numbers, permanently or for a time. */
export const putRateLimit: Operation = operation({
  method: 'PUT',
  path: '/ojs/v1/rate-limits/:key',
  name: 'putRateLimit',
  summary: 'Define a rate limit, or override it until a time.',
  params: Params,
  body: RateLimitChange,
  answers: { 200: 'The effective limit.' },
  async run(call) {
    const { body, params, server } = call
    if (call.tenant !== '' && server.limits.isShared(params.key)) throw sharedByAll(params.key)
    call.concerns(server.limits.ownerOf(ownName(call.tenant, params.key), body.partition))
    const name = ownName(call.tenant, params.key)
    const known = (await (await server.remote.store()).limits()).find((each) => each.name === name)
    if (!known && typeof body.expires_at === 'string') throw notFound('rate limit', params.key)
    if (known) await override(call, known, body)
    else {
      const definitions = defined(body, name)
      await server.names.admit('limits', call.tenant, [name])
      await server.remote.define(definitions)
    }
    server.remote.notify()
    return ok(await limitJson(call, await definedLimit(call, params.key), body.partition))
  },
})

/** A limit in a list: its definition, and the sums of its budgets. The list loads no budget. */
function summaryJson({ name, policy }: LimitDefinition, totals: LimitTotals | undefined): Record<string, unknown> {
  const { rule, concurrency } = policy
  const spacing = spacingOf(policy)
  const active = totals?.active ?? 0
  return {
    key: splitName(name).name,
    on_limit: policy.onLimit,
    ...(concurrency !== null && {
      concurrency: { limit: concurrency, active, available: Math.max(0, concurrency - active) },
    }),
    ...(rule && rule.kind !== 'spacing' && { rate: numbersJson(policy, rule) }),
    ...(spacing && { throttle: throttleJson(policy, spacing) }),
    ...guardJson(policy),
    waiting_count: totals?.waiting ?? 0,
    partitions: totals?.keys ?? 0,
  }
}

/** The budget that a call names. A tenant sees only its own budget of a shared limit. @throws {Refusal} 403 */
function partitionOf(
  { server, tenant, query }: Call<unknown, { partition?: string | undefined }, unknown>,
  name: string,
): string | undefined {
  const { limits } = server
  if (tenant === '' || !limits.isShared(name) || !limits.isKeyed(name)) return query.partition
  if (query.partition === undefined || query.partition === tenant) return tenant
  throw denied(`All tenants share the limit ${name}. A tenant may read its own partition only.`)
}

/** The limit that a call names. @throws {Refusal} 404 */
export async function definedLimit(
  { server, tenant }: Call<unknown, unknown, unknown>,
  key: string,
): Promise<LimitDefinition> {
  const name = server.limits.storedName(tenant, key)
  const found = (await (await server.remote.store()).limits()).find((each) => each.name === name)
  if (!found) throw notFound('rate limit', key)
  return found
}

/** The limits that an admin defines under a name. @throws {Refusal} 422 if there is no rule */
export function defined(body: RateLimitJson, name: string): LimitDefinition[] {
  const found = definitionsOf(body, name, 0)
  if (found.length === 0)
    throw unprocessable('The rate limit has no rule. Expected at least one of concurrency, rate and throttle.')
  return found
}

async function override(
  { server }: Call<unknown, unknown, unknown>,
  { name, policy, version }: LimitDefinition,
  body: z.output<typeof RateLimitChange>,
): Promise<void> {
  const wanted = definitionsOf({ ...body, x_guard: undefined }, name, 0)[0]?.policy
  const until = typeof body.expires_at === 'string' ? instantMs(body.expires_at, server.clock.now()) : null
  if (until !== null && until <= server.clock.now())
    throw unprocessable('expires_at is invalid: it is past. Expected a future time.')
  const written = body.x_policy === undefined ? null : changeInText(body.x_policy, policy, `rate_limit ${name}`)
  const isOther = written ? !isOfKind(policy, written) : wanted && !hasRulesOf(policy, wanted)
  if (isOther) {
    if (until !== null || body.partition !== undefined)
      throw unprocessable(
        'The change has another kind of rule, which replaces the definition for all keys. Omit expires_at and partition.',
      )
    if (policy.of)
      throw unprocessable(
        'The limit guarantees a share of another limit, which a rule of another kind would end. Change its numbers, or the configuration of the server.',
      )
    // An admin's definition replaces that of the code and keeps its version. Overrides were for the old kind.
    await server.remote.define(defined(body, name).map((each) => ({ ...each, version })))
    await server.sluice.limits.clearOverride(name)
    return
  }
  const change: PolicyChange = {
    ...(body.concurrency !== undefined && { concurrency: body.concurrency }),
    ...(body.on_limit && { onLimit: body.on_limit }),
    ...(written ?? (wanted && numbersOf(wanted, policy))),
    ...(body.x_guard !== undefined && { guard: guardMs(body) as number }),
  }
  const options = { by: 'http', ...(until !== null && { until: new Date(until) }) }
  await server.sluice.limits.override(name, body.partition, change, options)
}

/** Returns whether a limit has the same rules, so that an override can change their numbers. */
function hasRulesOf(has: LimitPolicy, wanted: LimitPolicy): boolean {
  if (spacingOf(wanted) && !spacingOf(has)) return false
  return wanted.rule?.kind !== 'sliding' || (has.rule !== null && has.rule.kind !== 'spacing')
}

/** The override that gives one policy the numbers of another of its kind. */
function numbersOf(wanted: LimitPolicy, has: LimitPolicy): PolicyChange {
  const { rule } = wanted
  const spacing = spacingOf(wanted)
  const { ruleUs, spacingUs } = guardsOf(wanted)
  const per = rule?.kind === 'sliding' ? (rule.periodUs - ruleUs) / 1000 : 0
  return {
    ...(rule?.kind === 'sliding' && (has.rule?.kind === 'rate' ? { rate: rule.max, per } : { max: rule.max, per })),
    ...(spacing && { every: (spacing.everyUs - spacingUs) / 1000 }),
  }
}

function spacingOf({ rule, spacing }: LimitPolicy): SpacingRule | undefined {
  return rule?.kind === 'spacing' ? rule : spacing
}

/** A limit, or one budget of it, as JSON. */
export async function limitJson(
  call: Call<unknown, unknown, unknown>,
  { name, policy }: LimitDefinition,
  partition: string | undefined,
): Promise<Record<string, unknown>> {
  const store = await call.server.remote.store()
  // The answer has the sums of all budgets, and the remaining units of the shared one only: the number of budgets is
  // unbounded.
  const [bucket] = await store.inspect(name, keyOf(partition, name) ?? SHARED_KEY)
  const [totals] = partition === undefined ? await store.limitTotals([name]) : []
  const active = (partition === undefined ? totals?.active : bucket?.active) ?? 0
  const waiting = (partition === undefined ? totals?.waiting : bucket?.waiting) ?? 0
  const { rule } = policy
  const [stored] = (await store.backlog(name, keyOf(partition, name) ?? SHARED_KEY)) ?? []
  // An unused budget is not stored, but its overrides are.
  const current = stored?.policy ?? changed(policy, bucket?.overrides ?? [])
  const permits = current.concurrency
  const spacing = spacingOf(current)
  return {
    key: splitName(name).name,
    on_limit: policy.onLimit,
    ...(permits !== null && { concurrency: { limit: permits, active, available: Math.max(0, permits - active) } }),
    ...(rule &&
      rule.kind !== 'spacing' && {
        rate: { ...rateJson(current, rule, stored, store.nowUs()), window_resets_at: timeOrNull(bucket?.nextStartUs) },
      }),
    ...(spacing && {
      throttle: { ...throttleJson(current, spacing), next_allowed_at: timeOrNull(bucket?.nextStartUs) },
    }),
    ...guardJson(current),
    waiting_count: waiting,
    overrides: bucket?.overrides.map((each) => {
      const { kind, change, until, by, reason } = toldOverride(call, viewOfOverride(each))
      return { kind, change, expires_at: until, by, reason }
    }),
    partitions: partition === undefined ? (totals?.keys ?? 0) : 1,
  }
}

/** A definition with its overrides, and those of one key. */
function changed(policy: LimitPolicy, overrides: readonly Override[]): LimitPolicy {
  return overrides
    .filter(({ kind }) => kind === 'override')
    .toSorted((a, b) => Number(a.key !== null) - Number(b.key !== null))
    .reduce((now, { change }) => applyFittingOverride(now, change), policy)
}

/** The effective rule and its use. Permits have a member of their own. */
function rateJson(
  current: LimitPolicy,
  rule: Exclude<Rule, { kind: 'spacing' }>,
  stored: BucketBacklog | undefined,
  nowUs: number,
): Record<string, unknown> {
  const { spacing: _spacing, ...alone } = current
  const policy = { ...alone, concurrency: null }
  const now = policy.rule && policy.rule.kind !== 'spacing' ? policy.rule : rule
  const { available, capacity } = stored ? view(policy, stored.state, 0, nowUs) : { available: 0, capacity: 0 }
  return { ...numbersJson(current, now), current_count: capacity - available }
}

/** The numbers as they were given: the guard is told apart from the period. */
function numbersJson(policy: LimitPolicy, rule: Exclude<Rule, { kind: 'spacing' }>): { limit: number; period: string } {
  const given = rule.kind !== 'fixed' ? rule.periodUs - guardsOf(policy).ruleUs : null
  const periodUs = rule.kind === 'fixed' && rule.window.align === 'epoch' ? rule.window.periodUs : given
  return { limit: rule.kind === 'rate' ? rule.rate : rule.max, period: periodUs === null ? NONE : periodOf(periodUs) }
}

function throttleJson(policy: LimitPolicy, { everyUs }: SpacingRule): { limit: number; period: string } {
  return { limit: 1, period: periodOf(everyUs - guardsOf(policy).spacingUs) }
}

function guardJson(policy: LimitPolicy): { x_guard?: string } {
  const { ruleUs } = guardsOf(policy)
  return ruleUs > 0 ? { x_guard: periodOf(ruleUs) } : {}
}

function periodOf(us: number): string {
  return `PT${us / 1e6}S`
}

function timeOrNull(us: number | null | undefined): string | null {
  return us === null || us === undefined ? null : timeOf(us)
}
