import { z } from 'zod'
import { systemClock } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import { quote } from '../../base/options.ts'
import type { QueueOptions } from '../../engine/define/queue-list.ts'
import { type AnyTask, task } from '../../engine/define/task.ts'
import { type Bounds, boundsOf } from '../../http/bounds.ts'
import { wordsOf } from '../../http/checked.ts'
import { QueueName } from '../../http/ojs/schemas.ts'
import { RequestBudget } from '../../http/request-budget.ts'
import { LimitRules, servedLimit, type ServedLimit, type ServedLimits, type ServedUse } from '../../http/limit-rules.ts'
import { misspelt } from '../../http/misspelt.ts'
import type { ServedShare } from '../../http/served-share.ts'
import type { Token } from '../../http/token.ts'
import { MAX_STRIPES } from '../../jobs/lane.ts'
import { input } from '../../jobs/schema.ts'
import { limit as defineLimit, type Limit, type LimitUse } from '../../policy/limits/define.ts'
import type { Key } from '../../policy/limits/key-path.ts'
import { readPath } from '../../policy/limits/partition-key.ts'
import type { Policy } from '../../policy/limits/policy.ts'
import { SETTINGS } from './settings.ts'

/** The rules of the limits check them. */
const Uses = z.array(z.unknown()).optional()
const Config = z.strictObject({
  ...SETTINGS,
  /** The server checks them, in words that never show a token. */
  tokens: z
    .array(z.looseObject({}))
    .min(1, 'Invalid input: expected at least one token. Leave tokens out to serve without any, on loopback alone')
    .optional(),
  /** A policy: how many requests each token may make. */
  requests: z.union([z.looseObject({}), z.string()]).optional(),
  /** Bounds for one tenant, one token and one answer; the server checks them. */
  bounds: z.looseObject({}).optional(),
  limits: z.record(z.string(), z.union([z.looseObject({}), z.string()])).optional(),
  types: z.record(z.string(), z.strictObject({ limits: Uses, retry: z.looseObject({}).optional() })).optional(),
  queues: z
    .record(z.string(), z.strictObject({ limits: Uses, stripes: z.int().min(1).max(MAX_STRIPES).optional() }))
    .optional(),
})

/** The parsed configuration of a server. */
export interface ServeConfig {
  readonly tokens: readonly Token[]
  readonly requests: Policy | string | null
  readonly bounds: Required<Bounds>
  /** Limits by type, queue and tenant, which the server holds the jobs of requests to. */
  readonly served: ServedLimits
  /** The same limits for the engine: for jobs that come by no request. */
  readonly limits: readonly Limit[]
  readonly tasks: readonly AnyTask[]
  readonly queues: Readonly<Record<string, QueueOptions>>
}

/**
 * Reads a configuration: `tokens`; `requests`; `limits` as policies by name; `types` and `queues` with the limits that
 * their jobs need.
 * @throws {SluiceError} `option.invalid`, and the errors of limits and tasks that are defined in code
 */
export function readServeConfig(json: unknown): ServeConfig {
  const slip = misspelt(Config, json)
  if (slip)
    throw new SluiceError('option.invalid', `The configuration is invalid: ${slip.path.join('.')} ${slip.message}`)
  const parsed = Config.safeParse(json)
  if (!parsed.success) {
    const words = parsed.error.issues.map(wordsOf).join('; ')
    throw new SluiceError('option.invalid', `The configuration is invalid: ${words}`)
  }
  const { tokens = [], requests, types = {}, queues = {} } = parsed.data
  const served = {
    limits: Object.fromEntries(
      Object.entries(parsed.data.limits ?? {}).map(([name, each]) => [
        name,
        servedLimit(each as unknown as ServedLimit | string),
      ]),
    ),
    types: usesOf(types),
    queues: usesOf(queues),
  }
  // Refuses what cannot be before the engine is made.
  void new LimitRules(served)
  if (requests !== undefined) void new RequestBudget(requests as unknown as Policy | string, systemClock)
  for (const name of Object.keys(queues))
    if (!QueueName.safeParse(name).success)
      throw new SluiceError(
        'option.invalid',
        `The configuration is invalid: no request can name the queue ${quote(name)}. Expected lower case letters, digits, dots and hyphens.`,
      )
  const limits = engineLimits(served.limits)
  const byOf = (use: ServedUse): string | undefined => use.by ?? served.limits[use.limit]?.by
  return {
    tokens: tokens as unknown as readonly Token[],
    requests: (requests as unknown as Policy | string | undefined) ?? null,
    bounds: boundsOf(parsed.data.bounds),
    served,
    limits: [...limits.values()],
    tasks: Object.entries(types).map(([name, type]) =>
      task(name, input<unknown>(), {
        limits: (served.types[name]?.limits ?? []).map((use) => engineUse(limits.get(use.limit), use, byOf(use))),
        retry: type.retry ?? {},
        run: () => {
          throw new SluiceError('task.unknown', `The jobs of ${name} are run by workers outside of this server.`)
        },
      }),
    ),
    // A server runs no job itself, so it need not be warned that it serves no queue.
    queues: {
      default: { concurrency: 0 },
      ...Object.fromEntries(
        Object.entries(served.queues).map(([name, queue]) => [
          name,
          {
            concurrency: 0,
            limits: queue.limits
              .filter((use) => byOf(use) === undefined)
              .map((use) => engineUse(limits.get(use.limit), use, undefined)),
            ...(queues[name]?.stripes !== undefined && { stripes: queues[name].stripes }),
          },
        ]),
      ),
    },
  }
}

function usesOf(
  of: Readonly<Record<string, { readonly limits?: readonly unknown[] | undefined }>>,
): Record<string, { readonly limits: readonly ServedUse[] }> {
  return Object.fromEntries(
    Object.entries(of).map(([name, { limits = [] }]) => [name, { limits: limits as readonly ServedUse[] }]),
  )
}

/** The limits as the engine has them. A common limit comes before those that have a share of it. */
function engineLimits(served: Readonly<Record<string, ServedLimit>>): ReadonlyMap<string, Limit> {
  const limits = new Map<string, Limit>()
  const all = Object.entries(served)
  for (const [name, { shared: _shared, by: _by, of, ...policy }] of all.toSorted(([, a], [, b]) => commonsFirst(a, b)))
    limits.set(
      name,
      defineLimit(name, {
        onMissingKey: 'fail',
        ...policy,
        ...(of && { of: { ...shareOf(of), limit: commonUse(limits, served, of) } }),
      } as unknown as Policy),
    )
  return new Map(all.flatMap(([name]) => [[name, limits.get(name) as Limit] as const]))
}

function commonsFirst(a: ServedLimit, b: ServedLimit): number {
  return Number(a.of !== undefined) - Number(b.of !== undefined)
}

function shareOf({ limit: _limit, by: _by, ...share }: ServedShare): Omit<ServedShare, 'limit' | 'by'> {
  return share
}

function commonUse(
  limits: ReadonlyMap<string, Limit>,
  served: Readonly<Record<string, ServedLimit>>,
  { limit, by }: ServedShare,
): LimitUse<unknown> {
  return engineUse(limits.get(limit), { limit }, by ?? served[limit]?.by)
}

/** The engine's use for jobs that no request enqueues, such as those of SQL. Only their input is known. */
function engineUse(
  limit: Limit | undefined,
  { limit: name, weight }: ServedUse,
  by: string | undefined,
): LimitUse<unknown> {
  if (!limit)
    throw new SluiceError('limit.unknown', `The configuration names the limit ${name}, but does not define it.`)
  const options = weight === undefined ? undefined : { weight }
  if (by === undefined) return weight === undefined ? limit : limit.weight(weight)
  return limit.by((given: unknown) => keyIn(given, by), options)
}

/**
 * One argument is the input itself; several form a list. A job without a key fails, unless the limit's `onMissingKey`
 * decides otherwise.
 */
function keyIn(given: unknown, by: string): Key | null | undefined {
  if (by === 'tenant' || by.startsWith('meta.')) return undefined
  if (!by.startsWith('args.')) return readPath(given, by) as Key | undefined
  return (readPath([given], by.slice('args.'.length)) ?? readPath(given, by.slice('args.'.length))) as Key | undefined
}
