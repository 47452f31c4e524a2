/** The main door: define limits and tasks, run an engine. */
import '../base/supported-node.ts'
export { SluiceError, type ErrorCode } from '../base/errors.ts'
export type { Duration } from '../base/duration.ts'
export type { Kept } from '../base/json-value.ts'
export { silentLogger, type Logger } from '../base/logger.ts'
export { seededRandom } from '../base/random.ts'
export type { Clock } from '../base/clock.ts'
export { limit, type InlineLimit, type Limit, type LimitUse } from '../policy/limits/define.ts'
export type { AtPath, Key, KeyPath } from '../policy/limits/key-path.ts'
export type { PolicyChange } from '../policy/limits/override.ts'
export type { Policy } from '../policy/limits/policy.ts'
export {
  forecast,
  type BacklogSpec,
  type Forecast,
  type ForecastOptions,
  type Waits,
} from '../policy/forecast/what-if.ts'
export { NonRetryable } from '../jobs/handler-errors.ts'
export { RateLimited } from '../jobs/rate-limited.ts'
export { RateLimitRejected } from '../jobs/handler-errors.ts'
export { input } from '../jobs/schema.ts'
export type { Unique } from '../jobs/unique-key.ts'
export type { Store } from '../store/contract/store.ts'
export { Sluice } from '../engine/engine.ts'
export type { SluiceOptions } from '../engine/define/options.ts'
export type { QueueList, QueueOptions } from '../engine/define/queue-list.ts'
export type { Carried, EnqueueCall, Instrumentation, RunCall } from '../engine/events/instrumentation.ts'
export type { StepEnd } from '../engine/define/flow-entry.ts'
export type { RunEnd, StepCall } from '../engine/events/instrumentation.ts'
export type { SluiceEvents } from '../engine/events/events.ts'
export type { FleetEvents } from '../engine/events/fleet-events.ts'
export type { FleetListening } from '../engine/events/listen.ts'
export { call, type Call, type CallOptions, type FlowOptions } from '../engine/define/flow.ts'
export type { FlowInspection, FlowsApi, FlowTarget, StartedFlow } from '../engine/api/flows.ts'
export type { FlowFilter, FlowListQuery, FlowPageQuery } from '../engine/api/flow-query.ts'
export type { FlowExplanation, FlowStepView, FlowView } from '../engine/api/flow-views.ts'
export type { AcquireOptions, RunContext } from '../limiter/client/calls.ts'
export type { Permit } from '../limiter/client/permit.ts'
export type { Use } from '../limiter/client/uses.ts'
export { JobCancelled, JobDiscarded } from '../engine/run/results.ts'
export type { JobFilter } from '../jobs/job-filter.ts'
export type { JobListQuery, JobPage, JobPageQuery } from '../engine/api/job-page.ts'
export type { JobExplanation } from '../engine/api/job-explanation.ts'
export type { LogLevel } from '../jobs/job-log.ts'
export type { FailedAttempt, JobLogEntry, JobView, JobWithFailures } from '../engine/api/job-view.ts'
export type { BulkOptions, BulkProgress, BulkResult } from '../engine/api/bulk.ts'
export type { ScheduleOptions } from '../engine/define/schedule.ts'
export type { QueueView } from '../engine/api/queues.ts'
export type { TaskView } from '../engine/api/tasks.ts'
export type { RunningJob, WorkerView } from '../engine/api/workers.ts'
export type { ScheduleState, ScheduleView } from '../engine/api/schedules.ts'
export type { LiveForecastOptions } from '../engine/api/forecast.ts'
export type { ReplayOptions, StoreReplay } from '../engine/api/replay.ts'
export { type Arrival, type Replay, replay, type ReplayedWaits } from '../policy/forecast/replay.ts'
export type { BucketView } from '../engine/api/bucket-view.ts'
export type { LimitView, WaitingRow, WaitingView } from '../engine/api/limits.ts'
export type { WaitView } from '../engine/events/wait-histogram.ts'
export type { OverrideView } from '../engine/api/override-view.ts'
export type { Snooze } from '../engine/define/snooze.ts'
export {
  task,
  type AnyTask,
  type Context,
  type EnqueueOptions,
  type Job,
  type OptionsOf,
  type Task,
  type TaskOptions,
} from '../engine/define/task.ts'
