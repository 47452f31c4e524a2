import type { JobDetails } from '../contract/remote-jobs.ts'
import type { Run, Store } from '../contract/store.ts'
import { audit, auditTrail } from './audit.ts'
import { backlog } from './backlog.ts'
import { budgetsOf } from './budgets/verbs.ts'
import { calibrate, charge, penalize, reopen } from './bucket-change.ts'
import { cancel } from './cancel.ts'
import { cancelFlow } from './cancel-flow.ts'
import { changeJobs } from './change-jobs.ts'
import type { Drive } from './drive.ts'
import { joinEvents, keepEvents, leaveEvents, readEvents } from './event-log.ts'
import { explain } from './explain.ts'
import { countJobs, jobsInStates, list, oldestOf, taskCounts } from './find-jobs.ts'
import { ended, get } from './get.ts'
import { inspect, inspectKeys } from './inspect.ts'
import { details, findDetails, noteProgress, overdueRuns, remove } from './job-details.ts'
import { addNotes, jobLog } from './job-notes.ts'
import { limitKeys, limitTotals, throttled, waitList } from './limit-keys.ts'
import { declareQueues, defineLimits, limits, overrideLimit, overridesOnRecord, unreadable } from './limits.ts'
import { lostClaims, releaseClaims, runsOfClaims } from './lost.ts'
import { retain } from './prune.ts'
import {
  boundQueue,
  endedRuns,
  keepSetting,
  limitQueue,
  names,
  pauseQueue,
  queues,
  settings,
  stripeQueue,
} from './queue-records.ts'
import type { Reading } from './reading.ts'
import { retime } from './retime.ts'
import { activate, retry } from './retry.ts'
import { sample } from './sample.ts'
import { pauseSchedule, schedule, schedules, unschedule } from './schedule.ts'
import { readSeries, rollSeries, writeSeries } from './series.ts'
import type { Access } from './sql.ts'
import { flows, getFlow } from './stored-flows.ts'
import { storedJobs } from './stored-jobs.ts'
import { enterFlow } from './workflows/memory.ts'
import { retryFlow } from './workflows/retry.ts'
import { flowSteps } from './workflows/shown.ts'
import { signalFlow } from './workflows/signal.ts'
import { cancellations, deregisterWorker, setDirective, workers } from './workers.ts'

/** The verbs whose logic and statements both stores share. */
export abstract class SharedVerbs {
  /** Runs shared logic on this store. */
  protected abstract drive<T>(how: Drive, work: (access: Access) => Reading<T>): Promise<T>
  /** Tells other processes that jobs were asked to end, have ended, or may start. */
  protected abstract notify(change: 'cancelled' | 'ended' | 'work'): void
  abstract release: Store['release']

  readonly budgets: Store['budgets'] = budgetsOf(
    (how, work) => this.drive(how, work),
    () => this.notify('work'),
  )

  get: Store['get'] = this.#verb('read', get)
  ended: Store['ended'] = this.#verb('read', ended)
  list: Store['list'] = this.#verb('page', list)
  countJobs: Store['countJobs'] = this.#verb('page', countJobs)
  taskCounts: Store['taskCounts'] = this.#verb('page', taskCounts)
  oldestOf: Store['oldestOf'] = this.#verb('page', oldestOf)
  jobsInStates: Store['jobsInStates'] = this.#verb('page', jobsInStates)
  storedJobs: Store['storedJobs'] = this.#verb('read', storedJobs)
  details: Store['details'] = async (id) => (await this.jobDetails([id]))[0] ?? null
  findDetails: Store['findDetails'] = this.#verb('read', findDetails)
  overdueRuns: Store['overdueRuns'] = this.#verb('read', overdueRuns)
  remove: Store['remove'] = this.#verb('keep', remove)
  noteProgress: Store['noteProgress'] = this.#verb('keep', noteProgress)
  addNotes: Store['addNotes'] = this.#verb('take', addNotes)
  jobLog: Store['jobLog'] = this.#verb('read', jobLog)
  protected readonly jobDetails: (ids: readonly string[]) => Promise<(JobDetails | null)[]> = this.#verb(
    'read',
    details,
  )

  cancel: Store['cancel'] = async (id) => {
    const answer = await this.drive('once', (access) => cancel(access, id))
    if (answer.kind !== 'missing') this.notify(answer.kind === 'requested' ? 'cancelled' : 'ended')
    return answer
  }
  cancelFlow: Store['cancelFlow'] = async (id) => {
    const answer = await this.drive('once', (access) => cancelFlow(access, id))
    if (answer.kind !== 'cancelled') return answer
    if (answer.requested.length > 0) this.notify('cancelled')
    this.notify('ended')
    return answer
  }
  retry: Store['retry'] = this.#verb('once', retry)
  retime: Store['retime'] = this.#verb('change', retime)
  retain: Store['retain'] = this.#verb('keep', retain)
  changeJobs: Store['changeJobs'] = async (change, ...which) => {
    const answer = await this.drive('once', (access) => changeJobs(access, change, ...which))
    if (change.kind !== 'cancel' || answer.changed.length === 0) return answer
    if (answer.changed.some(({ was }) => was === 'active')) this.notify('cancelled')
    this.notify('ended')
    return answer
  }
  activate: Store['activate'] = this.#verb('change', activate)
  explain: Store['explain'] = this.#verb('glance', explain)
  inspect: Store['inspect'] = this.#verb('glance', inspect)
  inspectKeys: Store['inspectKeys'] = this.#verb('glance', inspectKeys)
  backlog: Store['backlog'] = this.#verb('look', backlog)
  getFlow: Store['getFlow'] = this.#verb('read', getFlow)
  flows: Store['flows'] = this.#verb('read', flows)

  enterFlow: Store['enterFlow'] = this.#verb('read', enterFlow)
  signalFlow: Store['signalFlow'] = this.#verb('once', signalFlow)
  retryFlow: Store['retryFlow'] = this.#verb('once', retryFlow)
  flowSteps: Store['flowSteps'] = this.#verb('read', flowSteps)

  define: Store['define'] = this.#verb('change', defineLimits)
  declareQueues: Store['declareQueues'] = this.#verb('change', declareQueues)
  override: Store['override'] = this.#verb('change', overrideLimit)
  limits: Store['limits'] = this.#verb('look', limits)
  overrides: Store['overrides'] = this.#verb('look', overridesOnRecord)
  unreadable: Store['unreadable'] = this.#verb('look', unreadable)
  penalize: Store['penalize'] = this.#verb('adjust', penalize)
  calibrate: Store['calibrate'] = this.#verb('adjust', calibrate)
  reopen: Store['reopen'] = this.#verb('adjust', reopen)
  charge: Store['charge'] = this.#verb('adjust', charge)
  limitKeys: Store['limitKeys'] = this.#verb('glance', limitKeys)
  limitTotals: Store['limitTotals'] = this.#verb('look', limitTotals)
  waitList: Store['waitList'] = this.#verb('glance', waitList)
  throttled: Store['throttled'] = this.#verb('glance', throttled)
  sample: Store['sample'] = this.#verb('page', sample)

  cancellations: Store['cancellations'] = this.#verb('read', cancellations)
  workers: Store['workers'] = this.#verb('read', workers)
  setDirective: Store['setDirective'] = this.#verb('keep', setDirective)
  deregisterWorker: Store['deregisterWorker'] = this.#verb('change', deregisterWorker)

  schedule: Store['schedule'] = this.#verb('change', schedule)
  schedules: Store['schedules'] = this.#verb('read', schedules)
  pauseSchedule: Store['pauseSchedule'] = this.#verb('change', pauseSchedule)
  unschedule: Store['unschedule'] = this.#verb('change', unschedule)

  queues: Store['queues'] = this.#verb('read', queues)
  pauseQueue: Store['pauseQueue'] = this.#verb('change', pauseQueue)
  limitQueue: Store['limitQueue'] = this.#verb('change', limitQueue)
  boundQueue: Store['boundQueue'] = this.#verb('change', boundQueue)
  stripeQueue: Store['stripeQueue'] = this.#verb('change', stripeQueue)
  endedRuns: Store['endedRuns'] = this.#verb('read', endedRuns)
  names: Store['names'] = this.#verb('read', names)
  writeSeries: Store['writeSeries'] = this.#verb('keep', writeSeries)
  readSeries: Store['readSeries'] = this.#verb('read', readSeries)
  rollSeries: Store['rollSeries'] = this.#verb('keep', rollSeries)
  joinEvents: Store['joinEvents'] = this.#verb('take', joinEvents)
  readEvents: Store['readEvents'] = this.#verb('read', readEvents)
  keepEvents: Store['keepEvents'] = this.#verb('take', keepEvents)
  leaveEvents: Store['leaveEvents'] = this.#verb('take', leaveEvents)
  audit: Store['audit'] = this.#verb('change', audit)
  auditTrail: Store['auditTrail'] = this.#verb('read', auditTrail)
  keepSetting: Store['keepSetting'] = this.#verb('keep', keepSetting)
  settings: Store['settings'] = this.#verb('read', settings)

  readonly #lostClaims = this.#verb('read', lostClaims)
  readonly #runsOfClaims = this.#verb('read', runsOfClaims)

  releaseLost: Store['releaseLost'] = async (worker, held) =>
    this.#giveBack(worker, await this.#lostClaims(worker, held))

  releaseClaims: Store['releaseClaims'] = async (claims) =>
    releaseClaims(await this.#runsOfClaims(claims), (worker, runs) => this.#giveBack(worker, runs))

  async #giveBack(worker: number, runs: readonly Run[]): Promise<number> {
    const lost = runs.map((run) => ({ ...run, uses: [], startedUs: 0 }))
    if (lost.length > 0) await this.release(worker, lost)
    return lost.length
  }

  #verb<Input extends unknown[], Answer>(
    how: Drive,
    verb: (access: Access, ...input: Input) => Reading<Answer>,
  ): (...input: Input) => Promise<Answer> {
    return (...input) => this.drive(how, (access) => verb(access, ...input))
  }
}
