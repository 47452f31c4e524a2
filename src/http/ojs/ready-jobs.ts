import type { NewJob } from '../../jobs/job.ts'
import { inLaneOrder } from '../../jobs/lane.ts'
import { requireCommon } from '../../policy/limits/guarantee.ts'
import { keptBack } from '../../policy/limits/headroom.ts'
import type { LimitPolicy, LimitDefinition } from '../../policy/limits/limit.ts'
import { SHARED_KEY } from '../../policy/limits/partition-key.ts'
import type { BucketUse } from '../../store/contract/store.ts'
import { denied } from '../access.ts'
import { mostOf } from '../limit-rules.ts'
import type { Call } from '../operation.ts'
import { unprocessable } from '../refusal.ts'
import { splitName } from '../tenant.ts'
import { requireQueues } from './jobs.ts'
import { newJob } from './new-job.ts'
import { broughtBy } from './rate-limit-policy.ts'
import type { JobJson, UniqueJson } from './schemas.ts'

/** Jobs that may be stored, and the limits to define with them. */
export interface ReadyJobs {
  readonly jobs: readonly NewJob[]
  readonly limits: readonly LimitDefinition[]
  /** The first bucket that the job itself names; null: it names none. */
  readonly named: BucketUse | null
}

/** A bucket that a job needs, and the request's name of its limit. */
interface NamedUse {
  readonly name: string
  readonly use: BucketUse
}

interface JobNeeds {
  readonly json: JobJson
  /** The buckets that the job itself names. */
  readonly named: readonly NamedUse[]
  /** The buckets that its type and queue need. */
  readonly own: readonly NamedUse[]
  readonly brought: readonly LimitDefinition[]
}

type AnyCall = Call<unknown, unknown, unknown>

/**
 * Checks sent jobs, on every way in: queues, limits, keys and weights. All refusals happen here, before any write.
 *
 * @throws {Refusal} 400, 403, 422 @throws {SluiceError} the codes of an engine's enqueue
 */
export async function readyJobs(call: AnyCall, sent: readonly JobJson[]): Promise<ReadyJobs> {
  const { server, tenant } = call
  requireQueues(call, new Set(sent.map((json) => json.options?.queue ?? 'default')))
  for (const { options } of sent) requireOwnUnique(call, options?.unique)
  const needs = sent.map((json) => needsOf(call, json))
  const isLimited = needs.some(({ named, own }) => named.length + own.length > 0)
  const known = new Map(
    isLimited ? (await (await server.remote.store()).limits()).map((each) => [each.name, each]) : [],
  )
  const limits = new Map(mayDefine(call, needs, known).map((each) => [each.name, each]))
  const nowMs = server.clock.now()
  const jobs = needs.map(({ json, named, own }) => {
    const checked = (uses: readonly NamedUse[]): BucketUse[] =>
      uses.map((each) => checkedUse(call, each, json, { known, limits }))
    const [first, ...others] = checked(named)
    const uses = once([...(first ? [first] : []), ...others, ...checked(own)])
    // The configuration adds the common limit of its own ones.
    for (const { name, use } of named)
      if (!server.limits.definition(tenant, name)) requireCommon(name, known.get(use.limit)?.policy, uses)
    const job = newJob(json, { tenant, nowMs, newId: server.newId, uses, first: first ?? null })
    return server.limits.covers(json.type) ? job : server.remote.withLimits(job)
  })
  await admitNames(
    call,
    jobs,
    [...limits.keys()].filter((name) => !known.has(name)),
  )
  return {
    jobs,
    limits: [...limits.values()],
    named: needs.find(({ named }) => named.length > 0)?.named[0]?.use ?? null,
  }
}

/**
 * Checks that new queues and limits are within the tenant's bounds. A limit of the configuration belongs to the
 * server. @throws {Refusal} 422
 */
async function admitNames(
  { server, tenant }: AnyCall,
  jobs: readonly NewJob[],
  fresh: readonly string[],
): Promise<void> {
  const { names, limits } = server
  await names.admit(
    'queues',
    tenant,
    jobs.map(({ queue }) => queue),
  )
  await names.admit(
    'limits',
    tenant,
    fresh.filter((name) => limits.definition(tenant, splitName(name).name)?.name !== name),
  )
}

/**
 * The holder of a unique key may be in any queue of the tenant. A token that names its queues must not replace jobs of
 * others. @throws {Refusal} 403
 */
function requireOwnUnique({ access }: AnyCall, unique: UniqueJson | null | undefined): void {
  if (access.everywhere || !unique || !unique.on_conflict?.startsWith('replace')) return
  if (unique.keys?.includes('queue') || [unique.key ?? []].flat().includes('queue')) return
  throw denied(
    'The token is restricted to its queues, and unique could replace a job of another queue. Add queue to unique.keys.',
  )
}

function needsOf({ server, tenant }: AnyCall, json: JobJson): JobNeeds {
  const queue = json.options?.queue ?? 'default'
  const limited = { type: json.type, queue, args: json.args, meta: json.meta ?? {}, tenant }
  const rateLimit = json.options?.rate_limit ?? json.rate_limit
  const own = server.limits.uses(limited)
  if (!rateLimit) return { json, named: [], own, brought: [] }
  const named: NamedUse[] = []
  const { x_limit: limitUse } = rateLimit
  if (limitUse) {
    const key = server.limits.keyOf(limitUse.name, limitUse.key, limited)
    const limit = server.limits.storedName(tenant, limitUse.name)
    const { name, weight = 1 } = limitUse
    if (key !== null)
      named.push({ name, use: { limit, key, weight } }, ...server.limits.commonUses(name, weight, limited))
  }
  const brought = broughtBy(rateLimit, queue, tenant)
  for (const { name } of brought)
    named.push({ name: splitName(name).name, use: { limit: name, key: SHARED_KEY, weight: 1 } })
  return { json, named, own, brought }
}

/**
 * Of the policies that jobs bring for one limit the last one counts. Every producer may bring a new limit; only an
 * admin may change one.
 */
function mayDefine(
  { access, server, tenant }: AnyCall,
  needs: readonly JobNeeds[],
  known: ReadonlyMap<string, LimitDefinition>,
): LimitDefinition[] {
  const newest = new Map(needs.flatMap(({ brought }) => brought.map((each) => [each.name, each])))
  return [...newest.values()].filter(({ name, policy, version }) => {
    const has = known.get(name) ?? server.limits.definition(tenant, splitName(name).name)
    // The first use of a limit of the configuration defines it, if no definition is stored.
    if (has?.name !== name) return true
    if (has.version > version || isSame(has.policy, policy)) return false
    if (access.scopes.has('admin')) return true
    throw denied(
      `The token may not change the limit ${splitName(name).name}, which is defined with another policy. A change needs the scope admin.`,
    )
  })
}

/**
 * A bucket that a job needs, if its limit exists and can ever admit the job. A tenant's limit of the configuration is
 * defined with its first job.
 */
function checkedUse(
  { server, tenant }: AnyCall,
  { name, use }: NamedUse,
  { type, options }: JobJson,
  of: { readonly known: ReadonlyMap<string, LimitDefinition>; readonly limits: Map<string, LimitDefinition> },
): BucketUse {
  const coming = of.limits.get(use.limit) ?? of.known.get(use.limit) ?? server.limits.definition(tenant, name)
  if (!coming || coming.name !== use.limit)
    throw unprocessable(`rate_limit.x_limit is invalid: ${name}. Expected a limit of the server.`)
  if (!of.known.has(use.limit)) of.limits.set(use.limit, coming)
  const { policy } = coming
  if (!policy.rule || policy.rule.kind === 'spacing') return { ...use, weight: 1 }
  const most = mostOf(policy) - keptBack(policy, options?.priority ?? 0)
  if (use.weight <= most) return use
  throw unprocessable(
    `The weight of a ${type} job is invalid: ${use.weight}. Expected at most the ${most} units of the limit ${name}.`,
  )
}

/** Lists each bucket once, at the job's highest weight for it. */
function once(uses: readonly BucketUse[]): BucketUse[] {
  const found = new Map<string, BucketUse>()
  for (const use of uses) {
    const bucket = JSON.stringify([use.limit, use.key])
    if ((found.get(bucket)?.weight ?? 0) < use.weight) found.set(bucket, use)
  }
  return inLaneOrder([...found.values()])
}

function isSame(a: LimitPolicy, b: LimitPolicy): boolean {
  return JSON.stringify(a) === JSON.stringify(b)
}
