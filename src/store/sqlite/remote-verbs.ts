import type { Store } from '../contract/store.ts'
import { activate } from './activate.ts'
import { audit, auditTrail } from './audit.ts'
import { clear } from './clear.ts'
import type { Context } from './context.ts'
import { queueCounts } from './counts.ts'
import { details, findDetails, noteProgress, remove } from './job-details.ts'
import { names } from './names.ts'
import { overdueRuns } from './overdue.ts'
import { push, RefusedPush } from './push.ts'
import { boundQueue, endedRuns, keepSetting, limitQueue, pauseQueue, queues, settings } from './queues.ts'
import { deregisterWorker, registerWorker, setDirective, workers } from './register-worker.ts'

type Verb<Given extends unknown[], Answer> = (context: Context, ...given: Given) => Answer
type Call<Given extends unknown[], Answer> = (...given: Given) => Promise<Answer>

const CHANGES = 1

/** The verbs that work over a protocol needs. */
export abstract class RemoteVerbs {
  protected abstract get context(): Context

  push: Store['push'] = async (jobs, limits) => {
    try {
      return await this.#write(() => push(this.context, jobs, limits))
    } catch (error) {
      // Thrown so that the transaction is rolled back; to the caller it is an answer.
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
  workers: Store['workers'] = this.#reads(workers)
  setDirective: Store['setDirective'] = this.#writes(setDirective)
  deregisterWorker: Store['deregisterWorker'] = this.#writes(deregisterWorker)

  queues: Store['queues'] = this.#reads(queues)
  pauseQueue: Store['pauseQueue'] = this.#writes(pauseQueue)
  limitQueue: Store['limitQueue'] = this.#writes(limitQueue)
  boundQueue: Store['boundQueue'] = this.#writes(boundQueue)
  queueCounts: Store['queueCounts'] = this.#reads(queueCounts)
  endedRuns: Store['endedRuns'] = this.#reads(endedRuns)
  names: Store['names'] = this.#reads(names)

  audit: Store['audit'] = this.#writes(audit)
  auditTrail: Store['auditTrail'] = this.#reads(auditTrail)
  keepSetting: Store['keepSetting'] = this.#writes(keepSetting)
  settings: Store['settings'] = this.#reads(settings)
  clear: Store['clear'] = this.#writes(clear)

  #reads<Given extends unknown[], Answer>(verb: Verb<Given, Answer>): Call<Given, Answer> {
    return async (...given) => verb(this.context, ...given)
  }

  #writes<Given extends unknown[], Answer>(verb: Verb<Given, Answer>): Call<Given, Answer> {
    return (...given) => this.#write(() => verb(this.context, ...given))
  }

  #write<T>(work: () => T): Promise<T> {
    return this.context.db.write(CHANGES, work)
  }
}
