import type { Store } from '../contract/store.ts'
import { activate } from './activate.ts'
import { clear } from './clear.ts'
import type { Context } from './context.ts'
import { queueCounts } from './counts.ts'
import { details, findDetails, noteProgress, remove } from './job-details.ts'
import { overdueRuns } from './overdue.ts'
import { push, RefusedPush } from './push.ts'
import { readNow } from '../shared/reading.ts'
import { type Call, type SharedVerb, SharedVerbs } from '../shared/verbs.ts'
import { boundQueue, endedRuns, limitQueue, pauseQueue } from './queues.ts'
import { registerWorker } from './register-worker.ts'
import { accessOf } from './shared-sql.ts'

type Verb<Input extends unknown[], Answer> = (context: Context, ...input: Input) => Answer

const CHANGES = 1

/** The verbs for work over a protocol. */
export abstract class RemoteVerbs extends SharedVerbs {
  protected abstract get context(): Context

  push: Store['push'] = async (jobs, limits) => {
    try {
      return await this.#write(() => push(this.context, jobs, limits))
    } catch (error) {
      // Thrown to roll the transaction back; the caller gets it as an answer.
      if (error instanceof RefusedPush) return { kind: 'refused', at: error.at, why: error.why }
      throw error
    }
  }

  details: Store['details'] = this.#reads(details)
  findDetails: Store['findDetails'] = this.#reads(findDetails)
  activate: Store['activate'] = this.#writes(activate)
  remove: Store['remove'] = this.#writes(remove)
  noteProgress: Store['noteProgress'] = this.#writes(noteProgress)
  overdueRuns: Store['overdueRuns'] = this.#reads(overdueRuns)

  registerWorker: Store['registerWorker'] = this.#writes(registerWorker)
  pauseQueue: Store['pauseQueue'] = this.#writes(pauseQueue)
  limitQueue: Store['limitQueue'] = this.#writes(limitQueue)
  boundQueue: Store['boundQueue'] = this.#writes(boundQueue)
  queueCounts: Store['queueCounts'] = this.#reads(queueCounts)
  endedRuns: Store['endedRuns'] = this.#reads(endedRuns)
  clear: Store['clear'] = this.#writes(clear)

  protected reads<Input extends unknown[], Answer>(verb: SharedVerb<Input, Answer>): Call<Input, Answer> {
    return async (...input) => readNow(verb(accessOf(this.context), ...input))
  }

  protected looks<Input extends unknown[], Answer>(verb: SharedVerb<Input, Answer>): Call<Input, Answer> {
    return this.reads(verb)
  }

  protected keeps<Input extends unknown[], Answer>(verb: SharedVerb<Input, Answer>): Call<Input, Answer> {
    return this.changes(verb)
  }

  protected changes<Input extends unknown[], Answer>(verb: SharedVerb<Input, Answer>): Call<Input, Answer> {
    return (...input) => this.#write(() => readNow(verb(accessOf(this.context), ...input)))
  }

  #reads<Input extends unknown[], Answer>(verb: Verb<Input, Answer>): Call<Input, Answer> {
    return async (...input) => verb(this.context, ...input)
  }

  #writes<Input extends unknown[], Answer>(verb: Verb<Input, Answer>): Call<Input, Answer> {
    return (...input) => this.#write(() => verb(this.context, ...input))
  }

  #write<T>(work: () => T): Promise<T> {
    return this.context.db.write(CHANGES, work)
  }
}
