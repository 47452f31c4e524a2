import type { Clock } from '../../base/clock.ts'
import type { Statements } from '../../database/postgres.ts'
import type { NewFlow } from '../../jobs/new-flow.ts'
import type { FlowCancelAnswer } from '../contract/flows.ts'
import { cancelFlow } from './cancel-flow.ts'
import type { Context } from './context.ts'
import { SharedVerbs } from '../shared/verbs.ts'
import { READ_GIVE_UP_MS, whenReachable } from './retry-connection.ts'
import { startFlow } from './start-flow.ts'
import type { Bell } from './watch.ts'

/** What a part of the store's verbs is given of the store. */
export interface StoreAccess {
  readonly context: Context
  readonly clock: Clock
  readonly bell: Bell
}

/** The verbs of flows. */
export abstract class FlowVerbs extends SharedVerbs {
  protected abstract get access(): StoreAccess

  async startFlow(flow: NewFlow): Promise<void> {
    const { context, bell } = this.access
    await this.#session((db, again) => startFlow(context, db, flow, again))
    bell.ring('work')
  }

  async cancelFlow(id: string): Promise<FlowCancelAnswer> {
    const { context, bell } = this.access
    const answer = await context.db.transaction((db) => cancelFlow(context, db, id))
    if (answer.kind !== 'cancelled') return answer
    if (answer.requested.length > 0) bell.ring('cancelled')
    bell.ring('ended')
    bell.ring('work')
    return answer
  }

  #session<T>(work: (db: Statements, again: boolean) => Promise<T>): Promise<T> {
    const { context, clock } = this.access
    return whenReachable(clock, (again) => context.db.session((db) => work(db, again)), READ_GIVE_UP_MS)
  }
}
