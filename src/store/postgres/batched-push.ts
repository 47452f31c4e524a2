import type { Clock } from '../../base/clock.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { Offered } from '../contract/outside.ts'
import type { LimitDefinition } from '../contract/store.ts'
import { Batch } from './batch.ts'
import type { Context } from './context.ts'
import { changesAnything } from './define.ts'
import { offer, offerAgain } from './push.ts'
import { READ_GIVE_UP_MS, whenReachable } from './retry-connection.ts'

interface Offer {
  readonly jobs: readonly NewJob[]
  readonly limits: readonly LimitDefinition[]
}

/** An offer of more jobs goes alone: it gains nothing by company. */
const FEW = 10

/**
 * Offers that are made together are stored together, as long as each would be stored alone: with room for all, and nothing to wait for
 * or to look up, as unique keys and given ids have. All others go alone.
 */
export class Offers {
  readonly #context: Context
  readonly #clock: Clock
  readonly #plain: Batch<Offer, Offered>

  constructor(context: Context, clock: Clock) {
    this.#context = context
    this.#clock = clock
    this.#plain = new Batch((offers) => this.#together(offers))
  }

  get pending(): boolean {
    return this.#plain.pending
  }

  async add(given: Offer): Promise<Offered> {
    if (!this.#isPlain(given)) return this.#alone(given)
    return (await this.#plain.add([given]))[0] as Offered
  }

  #isPlain({ jobs, limits }: Offer): boolean {
    return (
      jobs.length <= FEW &&
      jobs.every(({ unique, terms }) => unique === null && !terms?.givenId) &&
      !limits.some((each) => changesAnything(this.#context.limits, each))
    )
  }

  async #together(offers: readonly Offer[]): Promise<Offered[]> {
    const [first] = offers
    if (first && offers.length === 1) return [await this.#alone(first)]
    const all = await this.#alone({
      jobs: offers.flatMap(({ jobs }) => jobs),
      limits: offers.flatMap(({ limits }) => limits),
    })
    if (all.kind === 'stored') return apart(offers, all)
    // There is not room for all: each by itself learns whether there is for it.
    const answers: Offered[] = []
    for (const each of offers) answers.push(await this.#alone(each))
    return answers
  }

  #alone({ jobs, limits }: Offer): Promise<Offered> {
    const context = this.#context
    const sinceUs = context.clock.nowUs()
    const store = (again: boolean): Promise<Offered> =>
      context.db.session((db) =>
        again ? offerAgain(context, db, jobs, limits, sinceUs) : offer(context, db, jobs, limits),
      )
    return whenReachable(this.#clock, store, READ_GIVE_UP_MS)
  }
}

/** What one statement came to, for each of the offers; the last one saw the queues as they are now. */
function apart(offers: readonly Offer[], { answers, depths }: Extract<Offered, { kind: 'stored' }>): Offered[] {
  const now = new Map(depths.map((each) => [each.queue, each]))
  let end = answers.length
  return offers
    .toReversed()
    .map(({ jobs }): Offered => {
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
