/** The main door: define limits and tasks, run an engine. */
export { SluiceError, type ErrorCode } from '../base/errors.ts'
export type { Duration } from '../base/duration.ts'
export type { Json } from '../base/json-value.ts'
export { silentLogger, type Logger } from '../base/logger.ts'
export { seededRandom } from '../base/random.ts'
export type { Clock } from '../base/clock.ts'
export { limit, type InlineLimit, type Limit, type LimitUse } from '../policy/define-limit.ts'
export type { AtPath, Key, KeyPath } from '../policy/key-path.ts'
export type { PolicyChange } from '../policy/override.ts'
export type { Policy } from '../policy/policy.ts'
export { forecast, type BacklogSpec, type Forecast, type ForecastOptions, type Waits } from '../policy/what-if.ts'
export { NonRetryable } from '../jobs/non-retryable.ts'
export { RateLimited } from '../jobs/rate-limited.ts'
export { RateLimitRejected } from '../jobs/rate-limit-rejected.ts'
export { input } from '../jobs/schema.ts'
export type { Unique } from '../jobs/unique-key.ts'
export type { Store } from '../store/store.ts'
export { Sluice } from '../engine/engine.ts'
export type { SluiceOptions } from '../engine/options.ts'
export type { QueueList, QueueOptions } from '../engine/queue-list.ts'
export type { Carried, EnqueueCall, Instrumentation, RunCall } from '../engine/instrumentation.ts'
export type { RunEnd } from '../engine/run-end.ts'
export type { SluiceEvents } from '../engine/events.ts'
export { call, type Call, type CallOptions, type FlowOptions } from '../engine/flow.ts'
export type { FlowsApi, FlowView, StartedFlow } from '../engine/flows-api.ts'
export { JobCancelled, JobDiscarded } from '../engine/results.ts'
export type { JobFilter, JobListQuery, JobPageQuery } from '../engine/job-page.ts'
export type { JobExplanation, JobView } from '../engine/jobs-api.ts'
export type { ScheduleOptions } from '../engine/schedule.ts'
export type { ScheduleView } from '../engine/schedules-api.ts'
export type { LiveForecastOptions } from '../engine/forecast.ts'
export type { BucketView, LimitView, WaitingRow, WaitingView } from '../engine/limits-api.ts'
export type { WaitView } from '../engine/wait-histogram.ts'
export type { OverrideView } from '../engine/override-view.ts'
export {
  task,
  type AnyTask,
  type Context,
  type EnqueueOptions,
  type Job,
  type Task,
  type TaskOptions,
} from '../engine/task.ts'
