/** The shapes of the monitor API, by the names that the pages use. They come from /openapi.json. Times are RFC 3339 texts. */
import type { operations } from './openapi.ts'

/** The answer of an operation. */
export type Answer<Operation> = Operation extends { readonly responses: infer Responses }
  ? Responses[keyof Responses] extends { readonly content: { readonly 'application/json': infer Body } }
    ? Body
    : never
  : never

export type {
  MonitorBucket as Bucket,
  MonitorBulk as Bulk,
  MonitorFlow as FlowRow,
  MonitorFlowStep as FlowStep,
  MonitorJob as JobRow,
  MonitorLimit as Limit,
  MonitorOverride as Override,
  MonitorQueue as Queue,
  MonitorSchedule as Schedule,
  MonitorTimeline as TimelineEntry,
  MonitorWorker as Worker,
} from './openapi.ts'

export type AuditEntry = Answer<operations['monitorAudit']>['entries'][number]
export type FlowView = Answer<operations['monitorFlow']>
export type JobView = Answer<operations['monitorJob']>
export type LinePlace = Answer<operations['monitorLimitKey']>['line'][number]
export type Overview = Answer<operations['monitorOverview']>
export type Attention = Overview['attention'][number]
export type TaskRow = Answer<operations['monitorTasks']>['tasks'][number]
export type WhatIf = Answer<operations['monitorWhatIf']>
export type Forecast = WhatIf['now']
export type BulkAction = operations['monitorStartBulk']['requestBody']['content']['application/json']['action']
