import type { Duration } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { checkTaskName, show } from '../../base/options.ts'
import { keyOfTenant } from '../../jobs/flow.ts'
import type { NewJob } from '../../jobs/job.ts'
import { inLaneOrder } from '../../jobs/lane.ts'
import { retryPolicy } from '../../jobs/retry-policy.ts'
import { input } from '../../jobs/schema.ts'
import { checkUnits } from '../../policy/limits/define.ts'
import { requireCommon } from '../../policy/limits/guarantee.ts'
import { partitionKey, SHARED_KEY } from '../../policy/limits/partition-key.ts'
import type { BucketUse, Store } from '../../store/contract/store.ts'
import { weightUnder } from '../define/limit-registry.ts'
import { definitionOf, task, type TaskDefinition } from '../define/task.ts'
import { type EnqueueContext, prepare } from '../run/enqueue.ts'

/** A job by the name of its task, as the command line and the monitor store it. */
export interface NamedJob {
  readonly task: string
  readonly input: unknown
  readonly queue?: string | undefined
  readonly priority?: number | undefined
  readonly attempts?: number | undefined
  readonly delay?: Duration | undefined
  readonly runAt?: Date | undefined
  readonly unique?: string | undefined
  /** By their stored names, beside those in the code of the task. Undefined: none beside them. */
  readonly limits?: readonly { readonly limit: string; readonly key?: string | undefined }[] | undefined
  /** Units under each of these limits; default 1. */
  readonly weight?: number | undefined
  /** The buckets of a configuration that stands in place of the code; undefined: there is none. */
  readonly uses?: readonly BucketUse[] | undefined
  /** The tenant whose job it is: it is noted in the metadata, and has unique keys of its own. Empty: none. */
  readonly tenant?: string | undefined
}

const PLAIN = definitionOf(task('plain', input<unknown>(), { run: () => undefined }))

/**
 * Prepares a job by the name of its task. A task that the engine does not list has its limits in code elsewhere, so the
 * caller has to name them all, if only as an empty list.
 * @throws {SluiceError} `option.invalid`, `limit.unknown`, `task.name.invalid`, and the codes of `enqueue`
 */
export async function prepareNamed(
  store: Pick<Store, 'limits'>,
  calls: EnqueueContext,
  tasks: ReadonlyMap<string, TaskDefinition>,
  { task: name, input: given, attempts, limits, weight, uses: configured, tenant = '', unique, ...rest }: NamedJob,
): Promise<NewJob> {
  checkTaskName(name, 'The task name')
  const listed = configured ? undefined : tasks.get(name)
  if (listed?.enter)
    throw new SluiceError('option.invalid', `The task ${show(name)} is a workflow. Start a flow of it instead.`)
  if (!listed && !configured && !limits)
    throw new SluiceError(
      'option.invalid',
      `The limits of the task ${show(name)} are in its code, which is not here. Name each, or give an empty list if it has none.`,
    )
  if (weight !== undefined && !limits?.length)
    throw new SluiceError('option.invalid', 'weight is the cost under the limits that are named, and none is.')
  const options = {
    ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined)),
    ...(unique !== undefined && { unique: unique && keyOfTenant(tenant, unique) }),
    ...(tenant !== '' && { meta: { tenant_id: tenant } }),
  }
  const job = await prepare(calls, listed ?? { ...PLAIN, name }, given, options)
  const known = new Map(limits?.length ? (await store.limits()).map((each) => [each.name, each.policy]) : [])
  const uses = [...(configured ?? job.uses)]
  for (const { limit, key: given = '' } of limits ?? []) {
    const policy = known.get(limit)
    if (!policy) throw new SluiceError('limit.unknown', `No limit ${show(limit)} is defined in this store.`)
    const found = partitionKey(given, 'shared', `limit ${limit}`)
    const key = found.kind === 'key' ? found.key : SHARED_KEY
    if (uses.some((use) => use.limit === limit && use.key === key))
      throw new SluiceError(
        'option.invalid',
        `The budget ${show(key === '' ? limit : `${limit}=${key}`)} is named twice.`,
      )
    const units = checkUnits(weight ?? 1, `limit ${limit}`)
    uses.push({ limit, key, weight: weightUnder(policy, units, job.priority, `limit ${limit}`) })
  }
  for (const { limit } of limits ?? []) requireCommon(limit, known.get(limit), uses)
  return {
    ...job,
    uses: inLaneOrder(uses),
    ...(attempts !== undefined && { maxAttempts: retryPolicy({ attempts }, 'attempts').attempts }),
  }
}
