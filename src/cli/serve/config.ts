import { z } from 'zod'
import { SluiceError } from '../../base/errors.ts'
import type { QueueOptions } from '../../engine/queue-list.ts'
import { type AnyTask, task } from '../../engine/task.ts'
import { input } from '../../jobs/schema.ts'
import { limit as defineLimit, type Limit, type LimitUse } from '../../policy/define-limit.ts'
import type { Policy } from '../../policy/policy.ts'
import type { Token } from '../../http/token.ts'

const Use = z.strictObject({
  limit: z.string(),
  /** A path into the job's input. */
  by: z.string().optional(),
  weight: z.int().min(1).optional(),
})
const Config = z.strictObject({
  tokens: z
    .array(
      // The server checks the rest, in words that never show the token.
      z.looseObject({}),
    )
    .optional(),
  /** A policy: how many requests each token may make. */
  requests: z.looseObject({}).optional(),
  limits: z.record(z.string(), z.looseObject({})).optional(),
  types: z
    .record(z.string(), z.strictObject({ limits: z.array(Use).optional(), retry: z.looseObject({}).optional() }))
    .optional(),
  queues: z.record(z.string(), z.strictObject({ limits: z.array(Use).optional() })).optional(),
})

/** What a server's configuration file comes to. */
export interface ServeConfig {
  readonly tokens: readonly Token[]
  readonly requests: Policy | null
  readonly limits: readonly Limit[]
  readonly tasks: readonly AnyTask[]
  readonly queues: Readonly<Record<string, QueueOptions>>
}

/**
 * Reads a configuration: `tokens`; `limits` as policies by name; `types` and `queues` with the limits that their jobs need, each with
 * the path `by` of the partition key in the input.
 * @throws cli.usage, and as limits and tasks that are defined in code
 */
export function readServeConfig(json: unknown): ServeConfig {
  const parsed = Config.safeParse(json)
  if (!parsed.success) {
    const words = parsed.error.issues.map((issue) => `${issue.path.map(String).join('.')}: ${issue.message}`).join('; ')
    throw new SluiceError('cli.usage', `The configuration cannot be used: ${words}`)
  }
  const { tokens = [], requests, limits: policies = {}, types = {}, queues = {} } = parsed.data
  const limits = new Map(
    Object.entries(policies).map(([name, policy]) => [name, defineLimit(name, policy as unknown as Policy)]),
  )
  const useOf = ({ limit, by, weight }: z.output<typeof Use>): LimitUse<unknown> => {
    const found = limits.get(limit)
    if (!found)
      throw new SluiceError('cli.usage', `The configuration names the limit ${limit}, but does not define it.`)
    if (by !== undefined) return found.by(by, weight === undefined ? undefined : { weight })
    return weight === undefined ? found : found.weight(weight)
  }
  return {
    tokens: tokens as unknown as readonly Token[],
    requests: (requests as unknown as Policy | undefined) ?? null,
    limits: [...limits.values()],
    tasks: Object.entries(types).map(([name, type]) =>
      task(name, input<unknown>(), {
        limits: (type.limits ?? []).map(useOf),
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
        Object.entries(queues).map(([name, queue]) => [
          name,
          { concurrency: 0, limits: (queue.limits ?? []).map(useOf) },
        ]),
      ),
    },
  }
}
