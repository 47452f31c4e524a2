/** The one route table: every operation in it is served, and described by `/openapi.json`. */
import type { Operation } from './operation.ts'
import { alias } from './operation.ts'
import { cancelFlow, retryFlow, signalFlow } from './flows/act-on-flows.ts'
import { explainFlow, getFlow, listFlows } from './flows/look-at-flows.ts'
import { startFlow } from './flows/start-flow.ts'
import * as units from './limiter/acquire.ts'
import * as permits from './limiter/corrections.ts'
import { getBudget, listBudgets } from './limiter/limits.ts'
import { MONITOR_ROUTES } from './monitor/routes.ts'
import { ack } from './ojs/ack.ts'
import { activateJob } from './ojs/activate-job.ts'
import { listAudit } from './ojs/admin-audit.ts'
import * as deadAdmin from './ojs/admin-dead-letter.ts'
import * as jobsAdmin from './ojs/admin-jobs.ts'
import * as queuesAdmin from './ojs/admin-queues.ts'
import * as statsAdmin from './ojs/admin-stats.ts'
import * as workersAdmin from './ojs/admin-workers.ts'
import { cancelJob, postCancelJob } from './ojs/cancel-job.ts'
import { deleteCron, listCron, registerCron } from './ojs/cron.ts'
import { deleteDeadLetter, getDeadLetter, listDeadLetter, retryDeadLetter } from './ojs/dead-letter.ts'
import { enqueueBatch } from './ojs/enqueue-batch.ts'
import { enqueue } from './ojs/enqueue.ts'
import { listEvents, streamEvents } from './ojs/events.ts'
import { fetchJobs } from './ojs/fetch.ts'
import { explainJob } from './ojs/explain-job.ts'
import { getJob } from './ojs/get-job.ts'
import { heartbeat } from './ojs/heartbeat.ts'
import { nack } from './ojs/nack.ts'
import { getProgress, putProgress, reportProgress } from './ojs/progress.ts'
import { listQueues, pauseQueue, queueStats, resumeQueue } from './ojs/queues.ts'
import { getRateLimit, listRateLimits, putRateLimit } from './ojs/rate-limits.ts'
import { deleteRateLimit, listRateLimitKeys } from './ojs/rate-limit-keys.ts'
import { cancelWorkflow, createWorkflow, getWorkflow } from './ojs/workflows.ts'
import { metrics } from './metrics/operation.ts'
import { health, healthReady, live, manifest, openApiDocument, ready, reset } from './ojs/system.ts'

/** Every operation. Fixed paths come before those with parameters in the same place. */
export const ROUTES: readonly Operation[] = [
  manifest,
  health,
  alias(health, { path: '/health' }),
  ready,
  live,
  healthReady,
  metrics,
  openApiDocument,
  enqueueBatch,
  enqueue,
  getJob,
  explainJob,
  cancelJob,
  postCancelJob,
  activateJob,
  putProgress,
  getProgress,
  units.acquire,
  units.reserve,
  units.confirm,
  permits.release,
  permits.extend,
  permits.charge,
  permits.penalize,
  listBudgets,
  getBudget,
  fetchJobs,
  ack,
  nack,
  heartbeat,
  reportProgress,
  listDeadLetter,
  getDeadLetter,
  retryDeadLetter,
  deleteDeadLetter,
  registerCron,
  listCron,
  deleteCron,
  createWorkflow,
  getWorkflow,
  cancelWorkflow,
  startFlow,
  listFlows,
  getFlow,
  explainFlow,
  signalFlow,
  cancelFlow,
  retryFlow,
  listQueues,
  queueStats,
  alias(queueStats, { path: '/ojs/v1/queues/:name' }),
  pauseQueue,
  resumeQueue,
  listEvents,
  streamEvents,
  listRateLimits,
  getRateLimit,
  listRateLimitKeys,
  putRateLimit,
  deleteRateLimit,
  statsAdmin.adminStats,
  statsAdmin.tenantStats,
  statsAdmin.schedulingStats,
  statsAdmin.listPools,
  statsAdmin.putPool,
  queuesAdmin.adminListQueues,
  queuesAdmin.adminGetQueue,
  queuesAdmin.adminPauseQueue,
  queuesAdmin.adminResumeQueue,
  queuesAdmin.configureQueue,
  queuesAdmin.limitQueue,
  jobsAdmin.purgeQueue,
  jobsAdmin.bulkRetry,
  jobsAdmin.bulkCancel,
  jobsAdmin.bulkDelete,
  jobsAdmin.listJobs,
  jobsAdmin.adminGetJob,
  jobsAdmin.adminCancelJob,
  jobsAdmin.adminRetryJob,
  workersAdmin.listWorkers,
  workersAdmin.quietWorker,
  workersAdmin.deleteWorker,
  deadAdmin.deadLetterStats,
  deadAdmin.adminListDeadLetter,
  deadAdmin.adminGetDeadLetter,
  deadAdmin.adminRetryDeadLetter,
  deadAdmin.adminDeleteDeadLetter,
  listAudit,
  ...MONITOR_ROUTES,
  reset,
]
