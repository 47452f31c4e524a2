import type { Clock } from '../base/clock.ts'
import type { Logger } from '../base/logger.ts'
import type { Sluice } from '../engine/engine.ts'
import type { Remote } from '../remote/remote.ts'

import type { Auditor } from './auditor.ts'
import type { Budgets } from './budgets.ts'
import type { Bounds } from './bounds.ts'
import type { EventLog } from './event-log.ts'
import type { HeldOpen } from './held-open.ts'
import type { LimitRules } from './limit-rules.ts'
import type { Metrics } from './metrics/metrics.ts'
import type { Monitor } from './monitor/monitor.ts'
import type { TenantNames } from './tenant-names.ts'
import type { Health } from './health.ts'
import type { QueueCounts } from './queue-counts.ts'

/** The parts that all operations share. */
export interface Server {
  readonly sluice: Sluice
  readonly remote: Remote
  readonly clock: Clock
  readonly logger: Logger
  readonly newId: () => string
  readonly events: EventLog
  readonly version: string
  readonly backend: string
  readonly testMode: boolean
  readonly startedMs: number
  /** False while it starts or stops. */
  readonly ready: () => boolean
  /** Returns whether the server has that path. */
  readonly serves: (path: string) => boolean
  /** Its OpenAPI document. */
  readonly openApi: () => Record<string, unknown>
  readonly counts: QueueCounts
  readonly health: Health
  readonly auditor: Auditor
  /** The budgets that `/limiter/v1` asks for. */
  readonly budgets: Budgets
  /** The limits of the configuration. */
  readonly limits: LimitRules
  readonly bounds: Required<Bounds>
  /** The open answers of each token. */
  readonly heldOpen: HeldOpen
  /** The numbers of limits, schedules and queues of each tenant. */
  readonly names: TenantNames
  /** The parts that all viewers of the monitor share. */
  readonly monitor: Monitor
  readonly metrics: Metrics
  /** Aborts when the server closes. */
  readonly closing: AbortSignal
}
