/** The shapes of the monitor API, as docs/reference/monitor.md and /openapi.json have them. Times are RFC 3339 texts. */
export type Instant = string
export type Counts = Readonly<Record<string, number>>

export interface Me {
  readonly name: string
  readonly role: 'reader' | 'operator'
  readonly tenant: string | null
  readonly version: string
  readonly backend: string
  readonly now: Instant
}

export interface Attention {
  readonly kind: string
  readonly severity: 'error' | 'warning' | 'info'
  readonly subject: {
    readonly limit?: string
    readonly key?: string | null
    readonly queue?: string
    readonly task?: string
    readonly schedule?: string
  }
  readonly words: string
  readonly action: string
  readonly count?: number
}

export interface Cause {
  readonly limit: string
  readonly key: string | null
  readonly waiting: number
  readonly share: number
  readonly nextStart: Instant | null
}

export interface Overview {
  readonly now: Instant
  readonly states: Counts
  readonly queues: readonly Queue[]
  readonly perMinute: {
    readonly started: number
    readonly completed: number
    readonly failed: number
    readonly waited: number
  }
  readonly waiting: { readonly total: number; readonly causes: readonly Cause[] }
  readonly workers: { readonly alive: number; readonly slots?: number | null; readonly active: number }
  readonly oldestWaiting: {
    readonly id: string
    readonly task: string
    readonly queue: string
    readonly createdAt: Instant
    readonly waitsOn: { readonly limit: string; readonly key: string | null } | null
  } | null
  readonly attention: readonly Attention[]
  readonly counted: { readonly at: Instant; readonly exact: boolean }
}

export interface Override {
  readonly limit: string
  readonly key: string | null
  readonly kind: 'override' | 'pause'
  readonly change: Readonly<Record<string, unknown>> | null
  readonly since: Instant
  readonly until: Instant | null
  readonly by: string | null
  readonly reason: string | null
  readonly ended: Instant | null
  readonly endedBy: string | null
}

export interface Bucket {
  readonly key: string | null
  readonly worker?: number
  readonly available: number
  readonly capacity: number
  readonly used: number
  readonly debt: number
  readonly active: number
  readonly waiting: number
  readonly nextStart: Instant | null
  readonly drained: Instant | null
  readonly overrides: readonly Override[]
}

export interface Limit {
  readonly name: string
  readonly rule: string
  readonly text: string | null
  readonly scope: 'fleet' | 'worker'
  readonly onLimit: string
  readonly unreadable: boolean
  readonly keys: number
  readonly heldKeys: number
  readonly waiting: number
  readonly active: number
  readonly bucket: Bucket | null
  readonly nextStart: Instant | null
  readonly drained: Instant | null
  readonly paused: boolean
  readonly overrides: readonly Override[]
  readonly recent: { readonly started: number; readonly denied: number; readonly waitedMs: number }
  readonly spark: readonly number[]
  readonly backend: { readonly kind: string; readonly healthy: boolean }
}

export interface Keys {
  readonly keys: readonly Bucket[]
  readonly cursor: string | null
  readonly partial?: boolean
}

export interface LinePlace {
  readonly position: number
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly priority: number
  readonly createdAt: Instant
  readonly expectedStart: Instant | null
  readonly exact: boolean
}

export interface KeyView {
  readonly limit: string
  readonly bucket: Bucket
  readonly line: readonly LinePlace[]
  readonly holders: readonly {
    readonly id: string
    readonly task: string
    readonly queue: string
    readonly startedAt: Instant | null
    readonly worker: number | null
  }[]
  readonly history: readonly Override[]
}

export interface Forecast {
  readonly jobs: number
  readonly keys: number
  readonly drainMs: number | null
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  readonly exact: boolean
  readonly caveats: readonly string[]
}

export interface WhatIf {
  readonly now: Forecast
  readonly then: Forecast | null
}

export interface JobRow {
  readonly id: string
  readonly task: string
  readonly queue: string
  readonly state: string
  readonly priority: number
  readonly attempt: number
  readonly maxAttempts: number
  readonly createdAt: Instant
  readonly startedAt: Instant | null
  readonly finishedAt: Instant | null
  readonly throttledUntil: Instant | null
  readonly tags: readonly string[]
  readonly meta: Readonly<Record<string, unknown>>
  readonly preview: string
  readonly error: { readonly code?: string; readonly message: string } | null
  readonly flow?: { readonly id: string }
  readonly occurrence?: { readonly schedule: string; readonly dueAt: Instant }
  readonly progress?: number
}

export interface JobPage {
  readonly jobs: readonly JobRow[]
  readonly cursor: string | null
  readonly looked: { readonly rows: number; readonly complete: boolean; readonly until: Instant | null }
}

export interface TimelineEntry {
  readonly kind: 'arrived' | 'waited' | 'attempt' | 'scheduled' | 'ended'
  readonly at: Instant
  readonly until: Instant | null
  readonly limit?: string
  readonly key?: string | null
  readonly attempt?: number
  readonly worker?: string | number | null
  readonly durationMs?: number
  readonly error?: { readonly code?: string; readonly message: string; readonly stack?: string }
  readonly words: string
}

export interface Explanation {
  readonly words: string
  readonly waitsOn: { readonly limit: string; readonly key: string | null } | null
  readonly position: number | null
  readonly linePosition: number | null
  readonly since: Instant | null
  readonly until: Instant | null
  readonly expectedStart: Instant | null
  readonly exact: boolean
}

export interface JobView extends JobRow {
  readonly input: unknown
  readonly result: unknown
  readonly inputOmitted?: true
  readonly resultOmitted?: true
  readonly limits: readonly { readonly limit: string; readonly key: string | null; readonly weight: number }[]
  readonly uniqueKey?: string | null
  readonly timeline: readonly TimelineEntry[]
  readonly logs?: readonly {
    readonly at: Instant
    readonly level: string
    readonly message: string
    readonly fields?: Readonly<Record<string, unknown>>
  }[]
  readonly wait: Explanation | null
  readonly children?: readonly { readonly id: string; readonly workflow?: string; readonly state: string }[]
}

export type BulkAction = 'cancel' | 'retry' | 'delete' | 'move' | 'priority'

export interface Bulk {
  readonly id: string
  readonly action: BulkAction
  readonly filter: Readonly<Record<string, unknown>>
  readonly state: 'running' | 'done' | 'stopped' | 'failed'
  readonly total: number
  readonly done: number
  readonly changed: number
  readonly by: string | null
  readonly reason: string | null
  readonly createdAt: Instant
  readonly finishedAt: Instant | null
  readonly error: string | null
}

export interface Queue {
  readonly name: string
  readonly paused: boolean
  readonly states: Counts
  readonly throttled: number
  readonly bound: { readonly maxDepth: number | null; readonly warnAt: number | null } | null
  readonly workers: number
  readonly served: boolean
}

export interface Schedule {
  readonly name: string
  readonly task: string
  readonly queue: string
  readonly input: unknown
  readonly cron: string | null
  readonly timezone: string | null
  readonly every: number | null
  readonly state: 'active' | 'completed'
  readonly nextAt: Instant | null
  readonly lastAt: Instant | null
  readonly lastJob: string | null
  readonly runs: number
  readonly next: readonly Instant[]
  readonly skipped?: { readonly count: number; readonly lastAt: Instant | null; readonly reason: string | null } | null
}

export interface Worker {
  readonly worker: number
  readonly name: string | null
  readonly queues: readonly string[]
  readonly tasks: readonly string[] | null
  readonly alive: boolean
  readonly joinedAt: Instant
  readonly aliveUntil: Instant
  readonly directive: string | null
  readonly active: number
  readonly slots?: number | null
  readonly running?: readonly {
    readonly id: string
    readonly task: string
    readonly queue: string
    readonly startedAt: Instant | null
    readonly attempt: number
  }[]
}

export interface TaskRow {
  readonly task: string
  readonly listed: boolean
  readonly started: number
  readonly completed: number
  readonly failed: number
  readonly failureRate: number
  readonly p50Ms: number | null
  readonly p95Ms: number | null
  readonly p99Ms: number | null
  readonly waits: readonly { readonly cause: string; readonly ms: number }[]
}

export interface Series {
  readonly step: number
  readonly from: Instant
  readonly to: Instant
  readonly budget: number | null
  readonly series: readonly {
    readonly metric: string
    readonly unit: string
    readonly points: readonly (readonly [number, number | null])[]
  }[]
}

export interface AuditEntry {
  readonly id: string
  readonly at: Instant
  readonly who: string
  readonly tenant: string
  readonly action: string
  readonly subject: string
  readonly from: string | null
  readonly reason: string | null
  readonly request: unknown
  readonly requestId: string
}

export interface FlowRow {
  readonly id: string
  readonly kind: string
  readonly name: string | null
  readonly workflow: string | null
  readonly key: string | null
  readonly state: string
  readonly total: number
  readonly completed: number
  readonly discarded: number
  readonly cancelled: number
  readonly createdAt: Instant
  readonly finishedAt: Instant | null
  readonly error: { readonly code?: string; readonly message: string } | null
  readonly parent: { readonly id: string; readonly step: string } | null
}

export interface FlowStep {
  readonly name: string
  readonly state: string
  readonly attempt: number
  readonly startedAt: Instant | null
  readonly finishedAt: Instant | null
  readonly waitedMs: number
  readonly waitedFor: { readonly limit: string; readonly key: string } | null
  readonly wait?: Explanation
  readonly until: Instant | null
  readonly signals?: readonly string[]
  readonly child?: { readonly id: string; readonly workflow: string; readonly state: string }
  readonly left?: number
  readonly result: unknown
  readonly error: { readonly code?: string; readonly message: string } | null
}

export interface FlowView extends FlowRow {
  readonly result?: unknown
  readonly steps: readonly FlowStep[]
  readonly definition?: unknown
}
