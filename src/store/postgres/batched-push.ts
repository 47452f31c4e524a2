import type { Clock } from '../../base/clock.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { PushAnswer } from '../contract/remote-jobs.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import { Batch } from './batch.ts'
import type { Context } from './context.ts'
import { isNews } from '../shared/limit-changes.ts'
import { push, pushAgain } from './push.ts'
import { READ_GIVE_UP_MS, whenReachable } from './retry-connection.ts'

interface Push {
  readonly jobs: readonly NewJob[]
  readonly limits: readonly LimitDefinition[]
}

/** A larger push gets a statement of its own: it gains nothing from a batch. */
const FEW = 10

/**
 * Stores simultaneous pushes in one statement, if each could be stored alone. Their queues need room for all. Jobs with
 * unique keys or given ids are excluded, since they wait or need a lookup. All other pushes get a statement of their
 * own.
 */
export class BatchedPushes {
  readonly #context: Context
  readonly #clock: Clock
  readonly #plain: Batch<Push, PushAnswer>

  constructor(context: Context, clock: Clock) {
    this.#context = context
    this.#clock = clock
    this.#plain = new Batch((pushes) => this.#batched(pushes))
  }

  get pending(): boolean {
    return this.#plain.pending
  }

  async add(given: Push): Promise<PushAnswer> {
    if (!this.#isPlain(given)) return this.#autocommit(given)
    return (await this.#plain.add([given]))[0] as PushAnswer
  }

  #isPlain({ jobs, limits }: Push): boolean {
    return (
      jobs.length <= FEW &&
      jobs.every(({ unique, terms }) => unique === null && !terms?.givenId) &&
      !limits.some((each) => isNews(this.#context.limits.timeline(each.name), each))
    )
  }

  async #batched(pushes: readonly Push[]): Promise<PushAnswer[]> {
    const [first] = pushes
    if (first && pushes.length === 1) return [await this.#autocommit(first)]
    const all = await this.#autocommit({
      jobs: pushes.flatMap(({ jobs }) => jobs),
      limits: pushes.flatMap(({ limits }) => limits),
    })
    if (all.kind === 'stored') return apart(pushes, all)
    // There is no room for all, so each push is tried alone.
    const answers: PushAnswer[] = []
    for (const each of pushes) answers.push(await this.#autocommit(each))
    return answers
  }

  #autocommit({ jobs, limits }: Push): Promise<PushAnswer> {
    const context = this.#context
    const sinceUs = context.clock.nowUs()
    const store = (again: boolean): Promise<PushAnswer> =>
      context.db.session((db) =>
        again ? pushAgain(context, db, jobs, limits, sinceUs) : push(context, db, jobs, limits),
      )
    return whenReachable(this.#clock, store, READ_GIVE_UP_MS)
  }
}

/** The answer of one statement, split by push; the last push saw the queues in their present state. */
function apart(pushes: readonly Push[], stored: Extract<PushAnswer, { kind: 'stored' }>): PushAnswer[] {
  const { answers, depths } = stored
  const now = new Map(depths.map((each) => [each.queue, each]))
  let end = answers.length
  return pushes
    .toReversed()
    .map(({ jobs }): PushAnswer => {
      const named = new Set(jobs.map(({ queue }) => queue))
      const own = [...now.values()].filter(({ queue }) => named.has(queue))
      for (const each of own) {
        const count = jobs.filter(({ queue }) => queue === each.queue).length
        now.set(each.queue, { ...each, depth: each.depth - count })
      }
      return {
        ...stored,
        answers: answers.slice(end - jobs.length, (end -= jobs.length) + jobs.length),
        depths: own,
      }
    })
    .toReversed()
}
