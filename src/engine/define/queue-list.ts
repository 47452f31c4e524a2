import { SluiceError } from '../../base/errors.ts'
import { checkOptions, ownNames, quote, show } from '../../base/options.ts'
import type { LimitUse, UseSpec } from '../../policy/limits/define.ts'
import { checkQueue } from './call-options.ts'
import { type QueueDefaults, type QueueTerms, queueTerms } from './job-terms.ts'
import { dependsOnJob, specsOf } from './limit-registry.ts'
import { MAX_STRIPES } from '../../jobs/lane.ts'

/** The service of one queue by this process. */
export interface QueueOptions extends QueueDefaults {
  /**
   * Jobs of the queue that run at once in this process (in a limit, `concurrency` is fleet-wide); default 10. 0: it
   * runs none, but the queue's limits apply.
   */
  concurrency?: number
  /** Every job of the queue needs them too. A closed one stops the whole queue. */
  limits?: readonly LimitUse<never>[]
  /**
   * The version of `limits`: if engines declare different ones for the queue, the higher version applies to all of
   * them. At the same version the last declaration of the engine that opened the store applies. A whole number, default
   * 0.
   */
  version?: number
  /**
   * Over how many stripes the queue's lanes are spread, by their keys, for the whole store: on PostgreSQL each stripe
   * is claimed apart. 1 to 64; at first 1. The engine that opened the store last decides; one that names none leaves
   * it.
   */
  stripes?: number
}

/** Queues by name with their options or their concurrency, or names alone. */
export type QueueList = Readonly<Record<string, QueueOptions | number>> | readonly string[]

/** One queue with all defaults. */
export interface QueueSettings {
  readonly queue: string
  readonly concurrency: number
  readonly specs: readonly UseSpec<never>[]
  /** The version of its limits; null: this engine declares none, and the stored ones stay. */
  readonly version: number | null
  /** Its stripes; null: this engine names none, and the stored number stays. */
  readonly stripes: number | null
  /** For jobs whose task and call have none of their own. */
  readonly terms: QueueTerms
}

const DEFAULT_QUEUE = 'default'
const DEFAULT_CONCURRENCY = 10
const MOST_CONCURRENCY = 10_000
const KNOWN = ['concurrency', 'limits', 'version', 'stripes', 'timeout', 'retry', 'retention']

/**
 * The queues that an engine serves: the given ones; by default `default` and those of its tasks and workflows.
 * @param own the queues of its tasks and workflows
 * @throws {SluiceError} `option.invalid`, `queue.invalid`
 */
export function queuesOf(queues: QueueList | undefined, own: readonly string[]): QueueSettings[] {
  const named = queues === undefined ? [DEFAULT_QUEUE, ...own] : queues
  return entriesOf(named).map(([queue, options]) => {
    const given = optionsOf(queue, options)
    const { concurrency = DEFAULT_CONCURRENCY, limits, version, stripes } = given
    return {
      queue: checkQueue(queue),
      concurrency: checkConcurrency(queue, concurrency),
      specs: wholeSpecsOf(limits, queue),
      version: checkVersion(queue, limits !== undefined, version),
      stripes: stripes === undefined ? null : checkStripes(queue, stripes),
      terms: queueTerms(given, queue),
    }
  })
}

/** A guaranteed share counts for single jobs: a limit of the queue as a whole has none. */
function wholeSpecsOf(limits: Parameters<typeof specsOf>[0], queue: string): UseSpec<never>[] {
  const specs = specsOf(limits, `limits of queue ${queue}`)
  const found = specs.find((spec) => spec.common && !dependsOnJob(spec))
  if (!found) return specs
  throw new SluiceError(
    'option.invalid',
    `queue ${queue}: limit ${found.limit} guarantees a share of ${found.common?.limit}, which holds for single jobs. Key it by the input, as in ${found.limit}.by(…), or list it on the tasks.`,
  )
}

function entriesOf(queues: QueueList): [string, unknown][] {
  if (Array.isArray(queues)) return [...new Set(queues.map(checkName))].map((queue) => [queue, {}])
  if (ownNames(queues) === null)
    throw new SluiceError(
      'option.invalid',
      `queues is invalid: ${show(queues)}. Expected names, as ['mail'], or options by name, as { mail: { concurrency: 5 } }.`,
    )
  return Object.entries(queues)
}

function checkName(queue: unknown): string {
  if (typeof queue === 'string') return queue
  throw new SluiceError('option.invalid', `queues is invalid: it lists ${typeof queue}. Expected names, as ['mail'].`)
}

function optionsOf(queue: string, options: unknown): QueueOptions {
  if (typeof options === 'number') return { concurrency: options }
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw new SluiceError(
      'option.invalid',
      `queues.${queue} is invalid: ${show(options)}. Expected its concurrency, or options: ${KNOWN.join(', ')}.`,
    )
  checkOptions(options, KNOWN, `queues.${queue}`)
  return options
}

function checkVersion(queue: string, limited: boolean, version: unknown): number | null {
  if (version === undefined) return limited ? 0 : null
  if (!limited)
    throw new SluiceError(
      'option.invalid',
      `queues.${queue}.version needs limits, since it is their version. Add limits; [] removes them.`,
    )
  if (typeof version === 'number' && Number.isSafeInteger(version) && version >= 0) return version
  throw new SluiceError(
    'option.invalid',
    `queues.${queue}.version is invalid: ${quote(version)}. Expected a whole number from 0.`,
  )
}

function checkConcurrency(queue: string, value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MOST_CONCURRENCY) return value
  throw new SluiceError(
    'option.invalid',
    `The concurrency of queue ${queue} is invalid: ${show(value)}. Expected a whole number from 0 to 10,000.`,
  )
}

/** @throws {SluiceError} `option.invalid` */
function checkStripes(queue: string, value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_STRIPES) return value
  throw new SluiceError(
    'option.invalid',
    `queues.${queue}.stripes is invalid: ${show(value)}. Expected a whole number from 1 to ${MAX_STRIPES}.`,
  )
}
