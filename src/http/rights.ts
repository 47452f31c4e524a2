/** The one table of rights: the right that each operation of the route table needs. */
import type { Scope } from './token.ts'

/**
 * The reach of an operation: the queues that it names or shows, each of which the token must allow; a whole tenant; or
 * all tenants.
 */
export type Reach = 'queue' | 'tenant' | 'server'

/** The right that an operation needs; scope null: no token. */
export interface Right {
  readonly scope: Scope | null
  readonly reach: Reach
  /** Its changes are recorded. False for an operation that only reads. */
  readonly audited: boolean
}

const OPEN: Right = { scope: null, reach: 'queue', audited: false }
const needs = (scope: Scope, reach: Reach = 'queue'): Right => ({
  scope,
  reach,
  audited: scope === 'operator' || scope === 'admin',
})
/** A producer's work that stays until it is deleted. */
const schedules: Right = { scope: 'producer', reach: 'queue', audited: true }

const RIGHTS: Readonly<Record<string, Right>> = {
  manifest: OPEN,
  health: OPEN,
  live: OPEN,
  healthReady: OPEN,
  ready: OPEN,
  openApi: OPEN,

  enqueueJob: needs('producer'),
  enqueueBatch: needs('producer'),
  activateJob: needs('producer'),
  cancelJob: needs('producer'),
  createWorkflow: needs('producer'),
  cancelWorkflow: needs('producer'),
  startFlow: needs('producer'),
  signalFlow: needs('producer'),
  cancelFlow: needs('producer'),
  retryFlow: needs('producer'),
  registerCron: schedules,
  deleteCron: schedules,

  fetchJobs: needs('worker'),
  ackJob: needs('worker'),
  acquireUnits: needs('worker', 'tenant'),
  reserveUnits: needs('worker', 'tenant'),
  confirmReservation: needs('worker', 'tenant'),
  releasePermits: needs('worker', 'tenant'),
  extendPermits: needs('worker', 'tenant'),
  chargeUnits: needs('worker', 'tenant'),
  penalizeBucket: needs('worker', 'tenant'),
  nackJob: needs('worker'),
  heartbeat: needs('worker'),
  putProgress: needs('worker'),
  reportProgress: needs('worker'),

  getJob: needs('reader'),
  listBudgets: needs('reader', 'tenant'),
  getBudget: needs('reader', 'tenant'),
  explainJob: needs('reader'),
  getProgress: needs('reader'),
  getWorkflow: needs('reader'),
  listFlows: needs('reader'),
  getFlow: needs('reader'),
  explainFlow: needs('reader'),
  listCron: needs('reader'),
  listDeadLetter: needs('reader'),
  getDeadLetter: needs('reader'),
  listQueues: needs('reader'),
  queueStats: needs('reader'),
  listEvents: needs('reader'),
  streamEvents: needs('reader'),
  listRateLimits: needs('reader', 'tenant'),
  getRateLimit: needs('reader', 'tenant'),
  listRateLimitKeys: needs('reader', 'tenant'),

  pauseQueue: needs('operator'),
  resumeQueue: needs('operator'),
  retryDeadLetter: needs('operator'),
  deleteDeadLetter: needs('operator'),
  adminStats: needs('operator', 'tenant'),
  tenantStats: needs('operator', 'tenant'),
  schedulingStats: needs('operator', 'tenant'),
  listPools: needs('operator', 'tenant'),
  adminListQueues: needs('operator'),
  adminGetQueue: needs('operator'),
  admin_pause_queue: needs('operator'),
  admin_resume_queue: needs('operator'),
  purgeQueue: needs('operator'),
  bulk_retry: needs('operator'),
  bulk_cancel: needs('operator'),
  bulk_delete: needs('operator'),
  listJobs: needs('operator'),
  adminGetJob: needs('operator'),
  adminCancelJob: needs('operator'),
  adminRetryJob: needs('operator'),
  listWorkers: needs('operator', 'tenant'),
  quietWorker: needs('operator', 'tenant'),
  deleteWorker: needs('operator', 'tenant'),
  deadLetterStats: needs('operator'),
  adminListDeadLetter: needs('operator'),
  adminGetDeadLetter: needs('operator'),
  adminRetryDeadLetter: needs('operator'),
  adminDeleteDeadLetter: needs('operator'),
  metrics: needs('operator', 'server'),

  putRateLimit: needs('admin', 'tenant'),
  deleteRateLimit: needs('admin', 'tenant'),
  putPool: needs('admin', 'tenant'),
  configureQueue: needs('admin'),
  limitQueue: needs('admin'),
  listAudit: needs('admin', 'tenant'),
  reset: needs('admin', 'server'),

  ...rightsOf(needs('reader', 'tenant'), [
    'monitorMe',
    'monitorSeries',
    'monitorTasks',
    'monitorBulks',
    'monitorBulk',
    'monitorStream',
    'monitorOverview',
    'monitorLimits',
    'monitorLimit',
    'monitorLimitKeys',
    'monitorLimitKey',
    'monitorJobs',
    'monitorCountJobs',
    'monitorWhatIf',
    'monitorJob',
    'monitorExplainJob',
    'monitorQueues',
    'monitorQueue',
    'monitorDrainQueue',
    'monitorSchedules',
    'monitorSchedule',
    'monitorFlows',
    'monitorFlow',
    'monitorExplainFlow',
    'monitorWorkers',
  ]),
  ...rightsOf(needs('operator', 'tenant'), [
    'monitorOverrideLimit',
    'monitorOverrideKey',
    'monitorClearLimit',
    'monitorClearKey',
    'monitorPauseLimit',
    'monitorPauseKey',
    'monitorResumeLimit',
    'monitorResumeKey',
    'monitorPenalizeLimit',
    'monitorPenalizeKey',
    'monitorEnqueueJob',
    'monitorStartFlow',
    'monitorCancelJob',
    'monitorRetryJob',
    'monitorDeleteJob',
    'monitorPauseQueue',
    'monitorResumeQueue',
    'monitorBoundQueue',
    'monitorPauseSchedule',
    'monitorResumeSchedule',
    'monitorRunSchedule',
    'monitorDeleteSchedule',
    'monitorCancelFlow',
    'monitorRetryFlow',
    'monitorSignalFlow',
    'monitorQuietWorker',
    'monitorAudit',
    'monitorRunJob',
    'monitorChangeJob',
    'monitorStartBulk',
    'monitorStopBulk',
  ]),
}

function rightsOf(right: Right, names: readonly string[]): Record<string, Right> {
  return Object.fromEntries(names.map((name) => [name, right]))
}

/**
 * The right that an operation needs, by name. @throws {TypeError} for one without a row, so that none is served by
 * mistake
 */
export function rightOf(name: string): Right {
  const right = RIGHTS[name]
  if (!right) throw new TypeError(`The operation ${name} has no row in the table of rights, rights.ts.`)
  return right
}
