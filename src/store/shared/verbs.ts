import type { Run, Store } from '../contract/store.ts'
import { audit, auditTrail } from './audit.ts'
import { limitKeys, limitTotals, throttled } from './limit-keys.ts'
import { lostClaims, releaseClaims, runsOfClaims } from './lost.ts'
import { keepSetting, names, queues, settings } from './queue-records.ts'
import type { Reading } from './reading.ts'
import { cancellations, deregisterWorker, setDirective, workers } from './remote-workers.ts'
import type { Access } from './sql.ts'
import { flows, getFlow } from './stored-flows.ts'

/** Shared logic that makes a verb. */
export type SharedVerb<Input extends unknown[], Answer> = (access: Access, ...input: Input) => Reading<Answer>
/** A verb for callers. */
export type Call<Input extends unknown[], Answer> = (...input: Input) => Promise<Answer>

/** The verbs whose logic and statements both stores share. */
export abstract class SharedVerbs {
  /** A verb that only reads, or that may run twice. */
  protected abstract reads<Input extends unknown[], Answer>(verb: SharedVerb<Input, Answer>): Call<Input, Answer>
  /** A verb that reports waits: pending arrivals join their lanes first. */
  protected abstract looks<Input extends unknown[], Answer>(verb: SharedVerb<Input, Answer>): Call<Input, Answer>
  /** A change that lets no job start, and that may run twice. */
  protected abstract keeps<Input extends unknown[], Answer>(verb: SharedVerb<Input, Answer>): Call<Input, Answer>
  /** A change that may let jobs start. */
  protected abstract changes<Input extends unknown[], Answer>(verb: SharedVerb<Input, Answer>): Call<Input, Answer>
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
