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

/** A push of more jobs goes alone: it gains nothing by company. */
const FEW = 10

/**
 * Pushes that are made together are stored together, as long as each would be stored alone: with room for all, and nothing to wait for
 * or to look up, as unique keys and given ids have. All others go alone.
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
    // There is not room for all: each by itself learns whether there is for it.
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

/** What one statement came to, for each of the pushes; the last one saw the queues as they are now. */
function apart(pushes: readonly Push[], { answers, depths }: Extract<PushAnswer, { kind: 'stored' }>): PushAnswer[] {
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
        kind: 'stored',
        answers: answers.slice(end - jobs.length, (end -= jobs.length) + jobs.length),
        depths: own,
      }
    })
    .toReversed()
}
