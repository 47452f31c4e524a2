/** The operations of the monitor. */
import type { Operation } from '../operation.ts'
import { cancelJob, deleteJob, retryJob } from './act-on-job.ts'
import { listAudit } from './audit.ts'
import { getBulk, listBulks, startBulk, stopBulk } from './bulk.ts'
import { patchJob, runNow } from './start-job.ts'
import { series } from './series.ts'
import { listTasks } from './tasks.ts'
import { CHANGES_OF_LIMITS } from './change-limit.ts'
import { enqueueJob, startFlow } from './enqueue.ts'
import * as flows from './flows.ts'
import { explainJob, getJob } from './job.ts'
import { countTheJobs, listJobs } from './jobs.ts'
import { getKey } from './limit-key.ts'
import { listKeys } from './limit-keys.ts'
import { getLimit, listLimits } from './limits.ts'
import { me } from './me.ts'
import { overview } from './overview.ts'
import * as queues from './queues.ts'
import * as schedules from './schedules.ts'
import { streamChanges } from './stream.ts'
import { whatIf } from './what-if.ts'
import { listWorkers, quietWorker } from './workers.ts'

/** Every operation of the monitor. Fixed paths come before those with parameters in the same place. */
export const MONITOR_ROUTES: readonly Operation[] = [
  me,
  streamChanges,
  overview,
  listLimits,
  getLimit,
  listKeys,
  getKey,
  ...CHANGES_OF_LIMITS,
  whatIf,
  listJobs,
  enqueueJob,
  countTheJobs,
  getJob,
  explainJob,
  cancelJob,
  retryJob,
  deleteJob,
  runNow,
  patchJob,
  queues.listQueues,
  queues.getQueue,
  queues.pauseQueue,
  queues.resumeQueue,
  queues.boundQueue,
  queues.drainQueue,
  schedules.listSchedules,
  schedules.getSchedule,
  schedules.pauseSchedule,
  schedules.resumeSchedule,
  schedules.runSchedule,
  schedules.deleteSchedule,
  flows.listFlows,
  startFlow,
  flows.getFlow,
  flows.explainFlow,
  flows.cancelFlow,
  flows.retryFlow,
  flows.signalFlow,
  listWorkers,
  quietWorker,
  listTasks,
  series,
  startBulk,
  listBulks,
  getBulk,
  stopBulk,
  listAudit,
]
