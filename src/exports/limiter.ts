/** The door for plain code: budgets without jobs. It loads no store and no engine. */
import '../base/supported-node.ts'
export { SluiceError, type ErrorCode } from '../base/errors.ts'
export type { Duration } from '../base/duration.ts'
export { limit, type Limit } from '../policy/limits/define.ts'
export type { Policy } from '../policy/limits/policy.ts'
export type { PolicyChange } from '../policy/limits/override.ts'
export { RateLimited } from '../jobs/rate-limited.ts'
export { RateLimitRejected } from '../jobs/handler-errors.ts'
export { createLimiter, defineBackend } from '../limiter/create.ts'
export { valueBackend } from '../limiter/values/create.ts'
export type { Decide, ValueStore, WrittenValue } from '../limiter/values/backend.ts'
export type { LimiterOptions } from '../limiter/client/options.ts'
export type { ChangeOptions, LimiterBucket } from '../limiter/client/controls.ts'
export type { FetchOptions } from '../limiter/client/fetch.ts'
export type {
  AcquireOptions,
  Confirmed,
  LimiterEvents,
  Reservation,
  RunContext,
  RunOptions,
} from '../limiter/client/calls.ts'
export type { Limiter } from '../limiter/client/limiter.ts'
export type { Permit } from '../limiter/client/permit.ts'
export type { Use } from '../limiter/client/uses.ts'
export type {
  ReservationAnswer,
  BucketName,
  BucketReport,
  BucketUse,
  BudgetLeft,
  ChangeRequest,
  Confirmation,
  HeldPermit,
  LimitBackend,
  UnitAnswer,
  UnitRequest,
} from '../limiter/contract/limiter.ts'
