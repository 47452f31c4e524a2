import type { Run, Store } from '../contract/store.ts'
import { audit, auditTrail } from './audit.ts'
import { limitKeys, limitTotals, throttled } from './limit-keys.ts'
import { lostClaims, releaseClaims, runsOfClaims } from './lost.ts'
import { keepSetting, names, queues, settings } from './queue-records.ts'
import type { Reading } from './reading.ts'
import { cancellations, deregisterWorker, setDirective, workers } from './remote-workers.ts'
import type { Access } from './sql.ts'
import { flows, getFlow } from './stored-flows.ts'

/** Logic of both stores that makes a verb. */
export type SharedVerb<Given extends unknown[], Answer> = (access: Access, ...given: Given) => Reading<Answer>
/** A verb as callers have it. */
export type Call<Given extends unknown[], Answer> = (...given: Given) => Promise<Answer>

/** The verbs whose logic and statements both stores share. */
export abstract class SharedVerbs {
  /** A verb that only asks, or that may be done twice. */
  protected abstract reads<Given extends unknown[], Answer>(verb: SharedVerb<Given, Answer>): Call<Given, Answer>
  /** A verb that reports waits: jobs on their way stand in their lanes first. */
  protected abstract looks<Given extends unknown[], Answer>(verb: SharedVerb<Given, Answer>): Call<Given, Answer>
  /** A change that lets no job start, and that may be done twice. */
  protected abstract keeps<Given extends unknown[], Answer>(verb: SharedVerb<Given, Answer>): Call<Given, Answer>
  /** A change after which there may be something to claim. */
  protected abstract changes<Given extends unknown[], Answer>(verb: SharedVerb<Given, Answer>): Call<Given, Answer>
  abstract release: Store['release']

  getFlow: Store['getFlow'] = this.reads(getFlow)
  flows: Store['flows'] = this.reads(flows)

  limitKeys: Store['limitKeys'] = this.looks(limitKeys)
  limitTotals: Store['limitTotals'] = this.looks(limitTotals)
  throttled: Store['throttled'] = this.looks(throttled)

  cancellations: Store['cancellations'] = this.reads(cancellations)
  workers: Store['workers'] = this.reads(workers)
  setDirective: Store['setDirective'] = this.keeps(setDirective)
  deregisterWorker: Store['deregisterWorker'] = this.changes(deregisterWorker)

  queues: Store['queues'] = this.reads(queues)
  names: Store['names'] = this.reads(names)
  audit: Store['audit'] = this.changes(audit)
  auditTrail: Store['auditTrail'] = this.reads(auditTrail)
  keepSetting: Store['keepSetting'] = this.keeps(keepSetting)
  settings: Store['settings'] = this.reads(settings)

  readonly #lostClaims = this.reads(lostClaims)
  readonly #runsOfClaims = this.reads(runsOfClaims)

  releaseLost: Store['releaseLost'] = async (worker, held) =>
    this.#giveBack(worker, await this.#lostClaims(worker, held))

  releaseClaims: Store['releaseClaims'] = async (claims) =>
    releaseClaims(await this.#runsOfClaims(claims), (worker, runs) => this.#giveBack(worker, runs))

  async #giveBack(worker: number, runs: readonly Run[]): Promise<number> {
    const lost = runs.map((run) => ({ ...run, uses: [], startedUs: 0 }))
    if (lost.length > 0) await this.release(worker, lost)
    return lost.length
  }
}
