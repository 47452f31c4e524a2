// Written by scripts/monitor-types.mjs from /openapi.json.
export interface paths {
    readonly "/me": {
        /** Tell who asks, what the caller may do, and the time of the server. */
        readonly get: operations["monitorMe"];
    };
    readonly "/stream": {
        /** Stream what has changed as server-sent events, at most 4 a second. */
        readonly get: operations["monitorStream"];
    };
    readonly "/overview": {
        /** Show how the store does: jobs by state and queue, what waits for which budget, and what needs attention. */
        readonly get: operations["monitorOverview"];
    };
    readonly "/limits": {
        /** List all limits by name, with their budgets and what waits for them. */
        readonly get: operations["monitorLimits"];
    };
    readonly "/limits/{name}": {
        /** Show one limit, with its budgets and what waits for them. */
        readonly get: operations["monitorLimit"];
    };
    readonly "/limits/{name}/keys": {
        /** List the budgets of a limit by key. The order by waiting jobs has the 2,000 longest wait lists, and the order by used budget 1,000 keys. */
        readonly get: operations["monitorLimitKeys"];
    };
    readonly "/limits/{name}/keys/{key}": {
        /** Show one budget of a limit: what is left, the line of its jobs, who holds its permits, and its changes. */
        readonly get: operations["monitorLimitKey"];
    };
    readonly "/limits/{name}/override": {
        /** Change numbers of a limit, or of one key of it, at once and in every process. */
        readonly put: operations["monitorOverrideLimit"];
        /** End the override of a limit, or of one key of it. */
        readonly delete: operations["monitorClearLimit"];
    };
    readonly "/limits/{name}/keys/{key}/override": {
        /** Change numbers of a limit, or of one key of it, at once and in every process. */
        readonly put: operations["monitorOverrideKey"];
        /** End the override of a limit, or of one key of it. */
        readonly delete: operations["monitorClearKey"];
    };
    readonly "/limits/{name}/pause": {
        /** Stop all further starts of a limit, or of one key of it. */
        readonly put: operations["monitorPauseLimit"];
    };
    readonly "/limits/{name}/keys/{key}/pause": {
        /** Stop all further starts of a limit, or of one key of it. */
        readonly put: operations["monitorPauseKey"];
    };
    readonly "/limits/{name}/resume": {
        /** End the pause of a limit, or of one key of it. */
        readonly put: operations["monitorResumeLimit"];
    };
    readonly "/limits/{name}/keys/{key}/resume": {
        /** End the pause of a limit, or of one key of it. */
        readonly put: operations["monitorResumeKey"];
    };
    readonly "/limits/{name}/penalty": {
        /** Close one bucket until an instant, as an answer of 429 does. */
        readonly put: operations["monitorPenalizeLimit"];
    };
    readonly "/limits/{name}/keys/{key}/penalty": {
        /** Close one bucket until an instant, as an answer of 429 does. */
        readonly put: operations["monitorPenalizeKey"];
    };
    readonly "/limits/{name}/what-if": {
        /** Forecast how long the backlog of a limit takes, as it is and under another policy. It changes nothing. */
        readonly post: operations["monitorWhatIf"];
    };
    readonly "/jobs": {
        /** Search jobs, newest first. A search without an index looks at 200,000 jobs or for 500 ms, and says how far it looked. */
        readonly get: operations["monitorJobs"];
        /** Store a job of a task, under the limits of its code or of the configuration, or under those that it names. */
        readonly post: operations["monitorEnqueueJob"];
    };
    readonly "/jobs/count": {
        /** Count the jobs that match a filter. A count that takes long ends early: then at least so many match. */
        readonly get: operations["monitorCountJobs"];
    };
    readonly "/jobs/{id}": {
        /** Show a job: its payload, its result, why it waits, and what has happened to it. */
        readonly get: operations["monitorJob"];
        /** Delete a job that has ended. */
        readonly delete: operations["monitorDeleteJob"];
        /** Give a waiting job another priority, or another time. */
        readonly patch: operations["monitorChangeJob"];
    };
    readonly "/jobs/{id}/explain": {
        /** Explain why a job waits: its budget, its position and its expected start. */
        readonly get: operations["monitorExplainJob"];
    };
    readonly "/jobs/{id}/cancel": {
        /** Cancel a job. One that runs is asked to end. */
        readonly post: operations["monitorCancelJob"];
    };
    readonly "/jobs/{id}/retry": {
        /** Run a discarded job again, with new attempts. */
        readonly post: operations["monitorRetryJob"];
    };
    readonly "/jobs/{id}/run-now": {
        /** Let a scheduled or retryable job start now. It is refused with the reason where a budget forbids the start. */
        readonly post: operations["monitorRunJob"];
    };
    readonly "/queues": {
        /** List all queues with what stands in them. */
        readonly get: operations["monitorQueues"];
    };
    readonly "/queues/{name}": {
        /** Show a queue with what stands in it. */
        readonly get: operations["monitorQueue"];
    };
    readonly "/queues/{name}/pause": {
        /** Stop all further starts of a queue. */
        readonly put: operations["monitorPauseQueue"];
    };
    readonly "/queues/{name}/resume": {
        /** Let the jobs of a queue start again. */
        readonly put: operations["monitorResumeQueue"];
    };
    readonly "/queues/{name}/bound": {
        /** Bound how many jobs a queue holds that have not started; null lifts the bound. */
        readonly put: operations["monitorBoundQueue"];
    };
    readonly "/queues/{name}/drain": {
        /** Wait until no job of a queue waits or runs, for at most a minute. It deletes nothing; ask again to wait longer. */
        readonly post: operations["monitorDrainQueue"];
    };
    readonly "/schedules": {
        /** List all schedules with their next due times. */
        readonly get: operations["monitorSchedules"];
    };
    readonly "/schedules/{name}": {
        /** Show a schedule with its next due times. */
        readonly get: operations["monitorSchedule"];
        /** End and delete a schedule. An occurrence that waits or runs goes on. */
        readonly delete: operations["monitorDeleteSchedule"];
    };
    readonly "/schedules/{name}/pause": {
        /** Make no further jobs of a schedule until it is resumed. An occurrence that waits or runs goes on. */
        readonly put: operations["monitorPauseSchedule"];
    };
    readonly "/schedules/{name}/resume": {
        /** End a pause. Occurrences that were due meanwhile are skipped, or caught up with as onMissed says. */
        readonly put: operations["monitorResumeSchedule"];
    };
    readonly "/schedules/{name}/run": {
        /** Store one job of a schedule now, under its limits. It counts as no run, and the due times stay. */
        readonly post: operations["monitorRunSchedule"];
    };
    readonly "/flows": {
        /** List flows, newest first. Go on while a page has a cursor. */
        readonly get: operations["monitorFlows"];
        /** Start a flow of a workflow that the engine lists. With a key that a running flow has, the answer names it. */
        readonly post: operations["monitorStartFlow"];
    };
    readonly "/flows/{id}": {
        /** Show a flow with its result and its steps; a step that waits has its explanation. */
        readonly get: operations["monitorFlow"];
    };
    readonly "/flows/{id}/explain": {
        /** Explain what a flow waits for, and when it goes on. */
        readonly get: operations["monitorExplainFlow"];
    };
    readonly "/flows/{id}/cancel": {
        /** Cancel a flow and the children that it waits for. */
        readonly post: operations["monitorCancelFlow"];
    };
    readonly "/flows/{id}/retry": {
        /** Run a failed flow again: from where it failed, or from a step on. */
        readonly post: operations["monitorRetryFlow"];
    };
    readonly "/flows/{id}/signal": {
        /** Send a signal to a running flow of a workflow. */
        readonly post: operations["monitorSignalFlow"];
    };
    readonly "/workers": {
        /** List the workers: processes of engines, and remote ones, with what each runs. */
        readonly get: operations["monitorWorkers"];
    };
    readonly "/workers/{name}/quiet": {
        /** Let a remote worker take no more jobs. */
        readonly put: operations["monitorQuietWorker"];
    };
    readonly "/tasks": {
        /** List the tasks with their run times, their failures and how long their jobs waited for budgets. */
        readonly get: operations["monitorTasks"];
    };
    readonly "/series": {
        /** Show counts over time, of all or of one limit, key, queue or task. The step at work is not counted yet. */
        readonly get: operations["monitorSeries"];
    };
    readonly "/bulk": {
        /** List the changes of many jobs, newest first. */
        readonly get: operations["monitorBulks"];
        /** Cancel, retry, delete or move all jobs that match, or give them another priority. The server goes on by itself. */
        readonly post: operations["monitorStartBulk"];
    };
    readonly "/bulk/{id}": {
        /** Show a change of many jobs, and how far it has come. */
        readonly get: operations["monitorBulk"];
    };
    readonly "/bulk/{id}/stop": {
        /** Stop a change of many jobs after the batch at work. */
        readonly post: operations["monitorStopBulk"];
    };
    readonly "/audit": {
        /** List who changed what, when, from where and why, newest first. Changes are kept for 90 days. */
        readonly get: operations["monitorAudit"];
    };
}
export interface components {
    schemas: {
        readonly MonitorQueue: {
            readonly name: string;
            readonly paused: boolean;
            readonly states: {
                readonly scheduled: number;
                readonly available: number;
                readonly pending: number;
                readonly active: number;
                readonly completed: number;
                readonly retryable: number;
                readonly cancelled: number;
                readonly discarded: number;
            };
            /** @description Jobs that wait for a budget. */
            readonly throttled: number;
            readonly bound: {
                readonly maxDepth: number;
                readonly warnAt: number | null;
            } | null;
            readonly limit: string | null;
            readonly stripes: number;
            readonly createdAt: string | null;
            /** @description Live workers that serve it. */
            readonly workers: number;
            readonly served: boolean;
        };
        readonly MonitorLimit: {
            readonly name: string;
            /** @description The policy in words. */
            readonly rule: string;
            /** @description The policy as a text that can be edited; null: it has none. */
            readonly text: string | null;
            readonly policy: {
                readonly [key: string]: unknown;
            };
            /** @enum {string} */
            readonly scope: "fleet" | "worker";
            /** @enum {string} */
            readonly onLimit: "wait" | "reschedule" | "drop";
            readonly version: number;
            readonly unreadable: boolean;
            readonly keys: number;
            /** @description Keys with jobs that wait. */
            readonly heldKeys: number;
            readonly waiting: number;
            readonly active: number;
            /** @description The only key that a tenant sees of a limit that all tenants share; null: every key. */
            readonly onlyKey: string | null;
            /** @description The one bucket of a limit without keys; null: it has keys. */
            readonly bucket: components["schemas"]["MonitorBucket"] | null;
            readonly nextStart: string | null;
            /** @description By the longest wait list. */
            readonly drained: string | null;
            readonly paused: boolean;
            readonly overrides: readonly components["schemas"]["MonitorOverride"][];
            readonly recent: {
                readonly started: number;
                readonly denied: number;
                readonly waitedMs: number;
            };
            /** @description Starts in each of the last 30 steps of 10 s, oldest first. */
            readonly spark: readonly number[];
            readonly backend: {
                /** @description The backend of its budgets, or the store. */
                readonly kind: string;
                /** @description False: a process of the store cannot reach it. Others may. */
                readonly healthy: boolean;
            };
        };
        readonly MonitorBucket: {
            /** @description Null: the one bucket of a limit without keys. */
            readonly key: string | null;
            readonly worker?: number | null;
            readonly available: number;
            /** @description 0: a backend keeps it, to which the answering process has no way. */
            readonly capacity: number;
            /** @description Units of the capacity that could not start now. */
            readonly used: number;
            readonly debt: number;
            /** @description Permits held by running jobs. */
            readonly active: number;
            readonly waiting: number;
            readonly nextStart: string | null;
            readonly drained: string | null;
            readonly headroom: {
                readonly units: number;
                readonly priority: number;
            } | null;
            readonly guardMs?: number;
            /** @description The common limit of which it has a share, and when its next start is within that. */
            readonly guarantee?: {
                readonly limit: string;
                readonly from: string | null;
            };
            readonly overrides: readonly components["schemas"]["MonitorOverride"][];
        };
        readonly MonitorOverride: {
            readonly limit: string;
            /** @description Null: all keys. */
            readonly key: string | null;
            /** @enum {string} */
            readonly kind: "override" | "pause";
            readonly change: {
                readonly [key: string]: unknown;
            } | null;
            /** Format: date-time */
            readonly since: string;
            readonly until: string | null;
            readonly by: string | null;
            readonly reason: string | null;
            readonly ended: string | null;
            readonly endedBy: string | null;
        };
        readonly MonitorJob: {
            readonly id: string;
            readonly task: string;
            readonly queue: string;
            /** @enum {string} */
            readonly state: "scheduled" | "available" | "pending" | "active" | "completed" | "retryable" | "cancelled" | "discarded";
            readonly priority: number;
            readonly attempt: number;
            readonly maxAttempts: number;
            /** Format: date-time */
            readonly createdAt: string;
            readonly startedAt: string | null;
            readonly finishedAt: string | null;
            readonly throttledUntil: string | null;
            readonly tags: readonly string[];
            readonly meta: {
                readonly [key: string]: unknown;
            };
            /** @description The beginning of the payload. */
            readonly preview: string;
            readonly error: ({
                readonly code: string;
                readonly message: string;
            } & {
                readonly [key: string]: unknown;
            }) | null;
            readonly flow?: {
                readonly id: string;
            } & {
                readonly [key: string]: unknown;
            };
            readonly occurrence?: {
                readonly schedule: string;
                /** Format: date-time */
                readonly dueAt: string;
            };
        };
        readonly MonitorTimeline: {
            /** @enum {string} */
            readonly kind: "arrived" | "waited" | "attempt" | "ended";
            /** Format: date-time */
            readonly at: string;
            /** @description Null: it lasts, or its end is not known. */
            readonly until: string | null;
            readonly limit?: string;
            readonly key?: string | null;
            readonly attempt?: number;
            readonly durationMs?: number;
            readonly error?: {
                readonly code: string;
                readonly message: string;
            } & {
                readonly [key: string]: unknown;
            };
            readonly words: string;
        };
        readonly MonitorExplanation: {
            readonly words: string;
            readonly unresolved: boolean;
            readonly limits: readonly {
                readonly limit: string;
                readonly key: string | null;
                readonly weight: number;
            }[];
            readonly fairKey: string | null;
            readonly share: number;
            readonly waitsOn: {
                readonly limit: string;
                readonly key: string | null;
            } | null;
            readonly headroom: {
                readonly units: number;
                readonly priority: number;
            } | null;
            readonly guardMs?: number;
            readonly eachWorker?: readonly {
                readonly worker: number;
                readonly waitsOn: {
                    readonly limit: string;
                    readonly key: string | null;
                } | null;
                readonly until: string | null;
            }[];
            readonly position: number | null;
            readonly linePosition: number | null;
            readonly since: string | null;
            readonly until: string | null;
            readonly expectedStart: string | null;
            readonly exact: boolean;
            readonly givenUpAt: string | null;
            readonly served: boolean;
            readonly known: boolean;
            readonly overrides: readonly components["schemas"]["MonitorOverride"][];
        };
        readonly MonitorSchedule: {
            readonly name: string;
            readonly task: string;
            readonly queue: string;
            readonly input: unknown;
            readonly cron: string | null;
            readonly timezone: string | null;
            /** @description ms */
            readonly every: number | null;
            readonly until: string | null;
            readonly maxRuns: number | null;
            /** @enum {string} */
            readonly overlap: "skip" | "allow";
            /** @enum {string} */
            readonly onMissed: "skip" | "catchUp";
            /** @enum {string} */
            readonly state: "active" | "paused" | "completed";
            readonly nextAt: string | null;
            readonly lastAt: string | null;
            readonly lastJob: string | null;
            readonly runs: number;
            /** @description The next due times, at most 5. */
            readonly next: readonly string[];
            /** @description Due times that have passed since the last job, and became none; at most 100. */
            readonly missed: readonly string[];
        };
        readonly MonitorFlow: {
            readonly id: string;
            /** @enum {string} */
            readonly kind: "chain" | "group" | "batch" | "workflow" | "machine" | "graph";
            readonly name: string | null;
            readonly workflow: string | null;
            readonly key: string | null;
            /** @enum {string} */
            readonly state: "running" | "completed" | "failed" | "cancelled";
            readonly total: number;
            readonly completed: number;
            readonly discarded: number;
            readonly cancelled: number;
            /** Format: date-time */
            readonly createdAt: string;
            readonly finishedAt: string | null;
            readonly error: ({
                readonly code: string;
                readonly message: string;
            } & {
                readonly [key: string]: unknown;
            }) | null;
            readonly parent: {
                readonly id: string;
                readonly step: string;
            } | null;
            readonly meta: {
                readonly [key: string]: unknown;
            };
        };
        readonly MonitorFlowStep: {
            readonly name: string;
            /** @enum {string} */
            readonly state: "pending" | "done" | "running" | "waiting" | "sleeping" | "awaiting" | "failed" | "skipped";
            readonly attempt: number;
            readonly startedAt: string | null;
            readonly finishedAt: string | null;
            readonly waitedMs: number;
            readonly waitedFor: {
                readonly limit: string;
                readonly key: string;
            } | null;
            readonly wait?: components["schemas"]["MonitorExplanation"];
            readonly until: string | null;
            readonly signals?: readonly string[];
            /** @description The steps that it comes after; only of a graph. */
            readonly after?: readonly string[];
            readonly child?: {
                readonly id: string;
                readonly workflow: string;
                readonly state: string;
            };
            readonly left?: number;
            readonly result?: unknown;
            readonly error: ({
                readonly code: string;
                readonly message: string;
            } & {
                readonly [key: string]: unknown;
            }) | null;
        };
        readonly MonitorWorker: {
            readonly worker: number;
            /** @description Null: an engine's own worker. */
            readonly name: string | null;
            /** @description Null: it has not said so. */
            readonly host: string | null;
            readonly pid: number | null;
            readonly queues: readonly string[];
            /** @description Null: any. */
            readonly tasks: readonly string[] | null;
            readonly alive: boolean;
            /** Format: date-time */
            readonly joinedAt: string;
            /** Format: date-time */
            readonly aliveUntil: string;
            /** @enum {string} */
            readonly directive: "running" | "quiet" | "terminate";
            /** @description The most jobs that it runs at once; null: it has not said so. */
            readonly slots: number | null;
            readonly active: number;
            /** @description Its running jobs, the longest first; at most 1,000 over all workers. */
            readonly running: readonly {
                readonly id: string;
                readonly task: string;
                readonly queue: string;
                readonly attempt: number;
                /** Format: date-time */
                readonly since: string;
            }[];
        };
        readonly MonitorBulk: {
            readonly id: string;
            /** @enum {string} */
            readonly action: "cancel" | "retry" | "delete" | "move" | "priority";
            readonly filter: {
                readonly [key: string]: unknown;
            };
            /** @enum {string} */
            readonly state: "running" | "done" | "stopped" | "failed";
            /** @description Jobs that the change applied to when it was asked. */
            readonly total: number;
            /** @description The same as changed. */
            readonly done: number;
            readonly changed: number;
            readonly by: string;
            readonly reason: string | null;
            /** Format: date-time */
            readonly createdAt: string;
            /** Format: date-time */
            readonly updatedAt: string;
            readonly finishedAt: string | null;
            readonly error: string | null;
        };
    };
}
export type MonitorQueue = components['schemas']['MonitorQueue'];
export type MonitorLimit = components['schemas']['MonitorLimit'];
export type MonitorBucket = components['schemas']['MonitorBucket'];
export type MonitorOverride = components['schemas']['MonitorOverride'];
export type MonitorJob = components['schemas']['MonitorJob'];
export type MonitorTimeline = components['schemas']['MonitorTimeline'];
export type MonitorExplanation = components['schemas']['MonitorExplanation'];
export type MonitorSchedule = components['schemas']['MonitorSchedule'];
export type MonitorFlow = components['schemas']['MonitorFlow'];
export type MonitorFlowStep = components['schemas']['MonitorFlowStep'];
export type MonitorWorker = components['schemas']['MonitorWorker'];
export type MonitorBulk = components['schemas']['MonitorBulk'];
export interface operations {
    readonly monitorMe: {
        readonly responses: {
            /** @description Tell who asks, what the caller may do, and the time of the server. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly name: string;
                        /** @enum {string} */
                        readonly role: "reader" | "operator";
                        /** @description Null: things of all tenants, by their stored names. */
                        readonly tenant: string | null;
                        readonly version: string;
                        readonly backend: string;
                        /** Format: date-time */
                        readonly now: string;
                    };
                };
            };
        };
    };
    readonly monitorStream: {
        readonly responses: {
            /** @description A stream of the events hello, change, reset and end. */
            readonly 200: {
                content: {
                    readonly "text/event-stream": string;
                };
            };
        };
    };
    readonly monitorOverview: {
        readonly responses: {
            /** @description Show how the store does: jobs by state and queue, what waits for which budget, and what needs attention. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        /** Format: date-time */
                        readonly now: string;
                        readonly states: {
                            readonly scheduled: number;
                            readonly available: number;
                            readonly pending: number;
                            readonly active: number;
                            readonly completed: number;
                            readonly retryable: number;
                            readonly cancelled: number;
                            readonly discarded: number;
                        };
                        readonly queues: readonly components["schemas"]["MonitorQueue"][];
                        readonly perMinute: {
                            readonly started: number;
                            readonly completed: number;
                            readonly failed: number;
                            readonly waited: number;
                        };
                        readonly waiting: {
                            readonly total: number;
                            readonly causes: readonly {
                                readonly limit: string;
                                readonly key: string | null;
                                readonly waiting: number;
                                /** @description Of all jobs that wait for a budget; 0 to 1. */
                                readonly share: number;
                                readonly nextStart: string | null;
                            }[];
                        };
                        /** @description The job that is available for longest; null: none is. */
                        readonly oldestWaiting: {
                            readonly id: string;
                            readonly task: string;
                            readonly queue: string;
                            /** Format: date-time */
                            readonly createdAt: string;
                            readonly waitsOn: {
                                readonly limit: string;
                                readonly key: string | null;
                            } | null;
                        } | null;
                        readonly workers: {
                            readonly alive: number;
                            readonly active: number;
                        };
                        readonly attention: readonly {
                            /** @enum {string} */
                            readonly kind: "backend.down" | "task.failing" | "limit.unknown" | "limit.unreadable" | "limit.full" | "limit.paused" | "queue.unserved" | "queue.paused" | "schedule.late";
                            /** @enum {string} */
                            readonly severity: "error" | "warning" | "info";
                            readonly subject: {
                                readonly backend?: string;
                                readonly limit?: string;
                                readonly queue?: string;
                                readonly task?: string;
                                readonly schedule?: string;
                            };
                            readonly words: string;
                            readonly action: string;
                            readonly count: number;
                        }[];
                        readonly counted: {
                            /** Format: date-time */
                            readonly at: string;
                            /** @description False: a large store is counted now and then. */
                            readonly exact: boolean;
                            /** @description True: a large store is being counted, and some thousand of its jobs give the numbers meanwhile. */
                            readonly estimated: boolean;
                        };
                    };
                };
            };
        };
    };
    readonly monitorLimits: {
        readonly responses: {
            /** @description List all limits by name, with their budgets and what waits for them. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly limits: readonly components["schemas"]["MonitorLimit"][];
                    };
                };
            };
        };
    };
    readonly monitorLimit: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly responses: {
            /** @description Show one limit, with its budgets and what waits for them. */
            readonly 200: {
                content: {
                    readonly "application/json": components["schemas"]["MonitorLimit"];
                };
            };
        };
    };
    readonly monitorLimitKeys: {
        readonly parameters: {
            readonly query?: {
                readonly sort?: "waiting" | "key" | "used" | "next";
                readonly limit?: number;
                readonly cursor?: string;
            };
            readonly path: {
                readonly name: string;
            };
        };
        readonly responses: {
            /** @description List the budgets of a limit by key. The order by waiting jobs has the 2,000 longest wait lists, and the order by used budget 1,000 keys. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly keys: readonly components["schemas"]["MonitorBucket"][];
                        readonly cursor: string | null;
                        /** @enum {string} */
                        readonly sort: "waiting" | "key" | "used" | "next";
                        /** @description The order covers the keys with the most waiting jobs only. */
                        readonly partial: boolean;
                    };
                };
            };
        };
    };
    readonly monitorLimitKey: {
        readonly parameters: {
            readonly query?: {
                readonly limit?: number;
            };
            readonly path: {
                readonly name: string;
                readonly key: string;
            };
        };
        readonly responses: {
            /** @description Show one budget of a limit: what is left, the line of its jobs, who holds its permits, and its changes. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly limit: string;
                        readonly bucket: components["schemas"]["MonitorBucket"];
                        /** @description The first jobs of its line, in their order. */
                        readonly line: readonly (components["schemas"]["MonitorJob"] & {
                            readonly position: number | null;
                            readonly expectedStart: string | null;
                            /** @description False: it starts no sooner. */
                            readonly exact: boolean;
                        })[];
                        /** @description Running jobs that need it. */
                        readonly holders: readonly components["schemas"]["MonitorJob"][];
                        /** @description Overrides and pauses of it, newest first. */
                        readonly history: readonly components["schemas"]["MonitorOverride"][];
                    };
                };
            };
        };
    };
    readonly monitorOverrideLimit: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": {
                    /** @description The changed numbers, such as '5/s' or { rate: 5 }. */
                    readonly change: string | {
                        readonly [key: string]: unknown;
                    };
                    /** @description An instant in RFC 3339, or a time from now such as 5m. */
                    readonly until?: string;
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Change numbers of a limit, or of one key of it, at once and in every process. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly limit: components["schemas"]["MonitorLimit"];
                        readonly bucket: components["schemas"]["MonitorBucket"] | null;
                    };
                };
            };
        };
    };
    readonly monitorClearLimit: {
        readonly parameters: {
            readonly query?: {
                readonly reason?: string;
            };
            readonly path: {
                readonly name: string;
            };
        };
        readonly responses: {
            /** @description End the override of a limit, or of one key of it. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly limit: components["schemas"]["MonitorLimit"];
                        readonly bucket: components["schemas"]["MonitorBucket"] | null;
                        /** @description Whether there was one to end. */
                        readonly ended: boolean;
                    };
                };
            };
        };
    };
    readonly monitorOverrideKey: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
                readonly key: string;
            };
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": {
                    /** @description The changed numbers, such as '5/s' or { rate: 5 }. */
                    readonly change: string | {
                        readonly [key: string]: unknown;
                    };
                    /** @description An instant in RFC 3339, or a time from now such as 5m. */
                    readonly until?: string;
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Change numbers of a limit, or of one key of it, at once and in every process. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly limit: components["schemas"]["MonitorLimit"];
                        readonly bucket: components["schemas"]["MonitorBucket"] | null;
                    };
                };
            };
        };
    };
    readonly monitorClearKey: {
        readonly parameters: {
            readonly query?: {
                readonly reason?: string;
            };
            readonly path: {
                readonly name: string;
                readonly key: string;
            };
        };
        readonly responses: {
            /** @description End the override of a limit, or of one key of it. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly limit: components["schemas"]["MonitorLimit"];
                        readonly bucket: components["schemas"]["MonitorBucket"] | null;
                        /** @description Whether there was one to end. */
                        readonly ended: boolean;
                    };
                };
            };
        };
    };
    readonly monitorPauseLimit: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description An instant in RFC 3339, or a time from now such as 5m. */
                    readonly until?: string;
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Stop all further starts of a limit, or of one key of it. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly limit: components["schemas"]["MonitorLimit"];
                        readonly bucket: components["schemas"]["MonitorBucket"] | null;
                    };
                };
            };
        };
    };
    readonly monitorPauseKey: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
                readonly key: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description An instant in RFC 3339, or a time from now such as 5m. */
                    readonly until?: string;
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Stop all further starts of a limit, or of one key of it. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly limit: components["schemas"]["MonitorLimit"];
                        readonly bucket: components["schemas"]["MonitorBucket"] | null;
                    };
                };
            };
        };
    };
    readonly monitorResumeLimit: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description End the pause of a limit, or of one key of it. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly limit: components["schemas"]["MonitorLimit"];
                        readonly bucket: components["schemas"]["MonitorBucket"] | null;
                        /** @description Whether there was one to end. */
                        readonly ended: boolean;
                    };
                };
            };
        };
    };
    readonly monitorResumeKey: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
                readonly key: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description End the pause of a limit, or of one key of it. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly limit: components["schemas"]["MonitorLimit"];
                        readonly bucket: components["schemas"]["MonitorBucket"] | null;
                        /** @description Whether there was one to end. */
                        readonly ended: boolean;
                    };
                };
            };
        };
    };
    readonly monitorPenalizeLimit: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": {
                    /** @description An instant in RFC 3339, or a time from now such as 5m. */
                    readonly until: string;
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Close one bucket until an instant, as an answer of 429 does. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly limit: components["schemas"]["MonitorLimit"];
                        readonly bucket: components["schemas"]["MonitorBucket"] | null;
                    };
                };
            };
        };
    };
    readonly monitorPenalizeKey: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
                readonly key: string;
            };
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": {
                    /** @description An instant in RFC 3339, or a time from now such as 5m. */
                    readonly until: string;
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Close one bucket until an instant, as an answer of 429 does. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly limit: components["schemas"]["MonitorLimit"];
                        readonly bucket: components["schemas"]["MonitorBucket"] | null;
                    };
                };
            };
        };
    };
    readonly monitorWhatIf: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    readonly policy?: string | {
                        readonly [key: string]: unknown;
                    };
                    readonly key?: string;
                    readonly backlog?: number;
                    readonly runTime?: string;
                };
            };
        };
        readonly responses: {
            /** @description Forecast how long the backlog of a limit takes, as it is and under another policy. It changes nothing. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly now: {
                            readonly drainMs: number | null;
                            readonly p50Ms: number | null;
                            readonly p99Ms: number | null;
                            readonly jobs: number;
                            readonly keys: number;
                            readonly doubled: {
                                readonly drainMs: number | null;
                                readonly p50Ms: number | null;
                                readonly p99Ms: number | null;
                            };
                            readonly exact: boolean;
                            readonly caveats: readonly string[];
                        };
                        readonly then: {
                            readonly drainMs: number | null;
                            readonly p50Ms: number | null;
                            readonly p99Ms: number | null;
                            readonly jobs: number;
                            readonly keys: number;
                            readonly doubled: {
                                readonly drainMs: number | null;
                                readonly p50Ms: number | null;
                                readonly p99Ms: number | null;
                            };
                            readonly exact: boolean;
                            readonly caveats: readonly string[];
                        } | null;
                    };
                };
            };
        };
    };
    readonly monitorJobs: {
        readonly parameters: {
            readonly query?: {
                readonly state?: string;
                readonly queue?: string;
                readonly task?: string;
                readonly tag?: string;
                readonly limit?: string;
                readonly key?: string;
                readonly flow?: string;
                readonly schedule?: string;
                readonly error?: string;
                readonly uniqueKey?: string;
                readonly id?: string;
                readonly q?: string;
                readonly since?: string;
                readonly until?: string;
                readonly size?: number;
                readonly cursor?: string;
            };
        };
        readonly responses: {
            /** @description Search jobs, newest first. A search without an index looks at 200,000 jobs or for 500 ms, and says how far it looked. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly jobs: readonly components["schemas"]["MonitorJob"][];
                        readonly cursor: string | null;
                        readonly looked: {
                            readonly rows: number;
                            /** @description False: older jobs may match too; the cursor continues. */
                            readonly complete: boolean;
                            /** @description It looked at all jobs that are newer. */
                            readonly until: string | null;
                        };
                    };
                };
            };
        };
    };
    readonly monitorEnqueueJob: {
        readonly requestBody: {
            readonly content: {
                readonly "application/json": {
                    readonly task: string;
                    readonly input?: unknown;
                    readonly queue?: string;
                    readonly priority?: number;
                    readonly attempts?: number;
                    /** @description An instant in RFC 3339, or a time from now such as 5m. */
                    readonly runAt?: string;
                    /** @description Nothing is stored while another job has this key. */
                    readonly unique?: string;
                    /** @description Limits beside those of its code. Needed, if only as an empty list, where no code here has it. */
                    readonly limits?: readonly {
                        readonly limit: string;
                        readonly key?: string;
                    }[];
                    /** @description Its cost under each of these limits; default 1. */
                    readonly weight?: number;
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description It was there before: nothing was stored. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        /** @description False: another job has its unique key. */
                        readonly created: boolean;
                        readonly job: components["schemas"]["MonitorJob"];
                    };
                };
            };
            /** @description Store a job of a task, under the limits of its code or of the configuration, or under those that it names. */
            readonly 201: {
                content: {
                    readonly "application/json": {
                        /** @description False: another job has its unique key. */
                        readonly created: boolean;
                        readonly job: components["schemas"]["MonitorJob"];
                    };
                };
            };
        };
    };
    readonly monitorCountJobs: {
        readonly parameters: {
            readonly query?: {
                readonly state?: string;
                readonly queue?: string;
                readonly task?: string;
                readonly tag?: string;
                readonly limit?: string;
                readonly key?: string;
                readonly flow?: string;
                readonly schedule?: string;
                readonly error?: string;
                readonly uniqueKey?: string;
                readonly id?: string;
                readonly q?: string;
                readonly since?: string;
                readonly until?: string;
            };
        };
        readonly responses: {
            /** @description Count the jobs that match a filter. A count that takes long ends early: then at least so many match. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly count: number;
                        readonly exact: boolean;
                    };
                };
            };
        };
    };
    readonly monitorJob: {
        readonly parameters: {
            readonly path: {
                readonly id: string;
            };
        };
        readonly responses: {
            /** @description Show a job: its payload, its result, why it waits, and what has happened to it. */
            readonly 200: {
                content: {
                    readonly "application/json": components["schemas"]["MonitorJob"] & {
                        readonly input?: unknown;
                        /** @description The payload is larger than 1 MiB. */
                        readonly inputOmitted?: boolean;
                        readonly result?: unknown;
                        readonly resultOmitted?: boolean;
                        readonly limits: readonly {
                            readonly limit: string;
                            readonly key: string | null;
                            readonly weight: number;
                        }[];
                        /** @description The worker that runs it. */
                        readonly worker: string | number | null;
                        readonly progress?: unknown;
                        /** @description It is deleted at this time, or earlier where its task keeps only so many. Null: it has not ended, it is kept as long as its flow, or for ever. */
                        readonly keptUntil: string | null;
                        readonly timeline: readonly components["schemas"]["MonitorTimeline"][];
                        /** @description The last lines that its runs have logged, oldest first. */
                        readonly logs: readonly {
                            /** Format: date-time */
                            readonly at: string;
                            /** @enum {string} */
                            readonly level: "debug" | "info" | "warn" | "error";
                            readonly attempt: number;
                            readonly message: string;
                            readonly fields?: {
                                readonly [key: string]: unknown;
                            };
                        }[];
                        /** @description The flows that its flow has started, oldest first, at most 1,000. */
                        readonly children: readonly {
                            readonly id: string;
                            readonly workflow: string;
                            /** @enum {string} */
                            readonly state: "running" | "completed" | "failed" | "cancelled";
                        }[];
                        /** @description Null: it does not wait. */
                        readonly wait: components["schemas"]["MonitorExplanation"] | null;
                    };
                };
            };
        };
    };
    readonly monitorDeleteJob: {
        readonly parameters: {
            readonly query?: {
                readonly reason?: string;
            };
            readonly path: {
                readonly id: string;
            };
        };
        readonly responses: {
            /** @description Delete a job that has ended. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly deleted: boolean;
                    };
                };
            };
        };
    };
    readonly monitorChangeJob: {
        readonly parameters: {
            readonly path: {
                readonly id: string;
            };
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": {
                    readonly priority?: number;
                    /** @description An instant in RFC 3339, or a time from now such as 5m. */
                    readonly runAt?: string;
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Give a waiting job another priority, or another time. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly job: components["schemas"]["MonitorJob"];
                    };
                };
            };
        };
    };
    readonly monitorExplainJob: {
        readonly parameters: {
            readonly path: {
                readonly id: string;
            };
        };
        readonly responses: {
            /** @description Explain why a job waits: its budget, its position and its expected start. */
            readonly 200: {
                content: {
                    readonly "application/json": components["schemas"]["MonitorExplanation"];
                };
            };
        };
    };
    readonly monitorCancelJob: {
        readonly parameters: {
            readonly path: {
                readonly id: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Cancel a job. One that runs is asked to end. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        /** @description False: its state did not allow it. */
                        readonly done: boolean;
                        readonly job: components["schemas"]["MonitorJob"];
                    };
                };
            };
        };
    };
    readonly monitorRetryJob: {
        readonly parameters: {
            readonly path: {
                readonly id: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Run a discarded job again, with new attempts. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        /** @description False: its state did not allow it. */
                        readonly done: boolean;
                        readonly job: components["schemas"]["MonitorJob"];
                    };
                };
            };
        };
    };
    readonly monitorRunJob: {
        readonly parameters: {
            readonly path: {
                readonly id: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Let a scheduled or retryable job start now. It is refused with the reason where a budget forbids the start. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly done: boolean;
                        readonly job: components["schemas"]["MonitorJob"];
                    };
                };
            };
        };
    };
    readonly monitorQueues: {
        readonly responses: {
            /** @description List all queues with what stands in them. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly queues: readonly components["schemas"]["MonitorQueue"][];
                    };
                };
            };
        };
    };
    readonly monitorQueue: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly responses: {
            /** @description Show a queue with what stands in it. */
            readonly 200: {
                content: {
                    readonly "application/json": components["schemas"]["MonitorQueue"];
                };
            };
        };
    };
    readonly monitorPauseQueue: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Stop all further starts of a queue. */
            readonly 200: {
                content: {
                    readonly "application/json": components["schemas"]["MonitorQueue"];
                };
            };
        };
    };
    readonly monitorResumeQueue: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Let the jobs of a queue start again. */
            readonly 200: {
                content: {
                    readonly "application/json": components["schemas"]["MonitorQueue"];
                };
            };
        };
    };
    readonly monitorBoundQueue: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": {
                    readonly maxDepth: number | null;
                    readonly warnAt?: number | null;
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Bound how many jobs a queue holds that have not started; null lifts the bound. */
            readonly 200: {
                content: {
                    readonly "application/json": components["schemas"]["MonitorQueue"];
                };
            };
        };
    };
    readonly monitorDrainQueue: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description At most 1m; default 30s. */
                    readonly timeout?: string;
                };
            };
        };
        readonly responses: {
            /** @description Wait until no job of a queue waits or runs, for at most a minute. It deletes nothing; ask again to wait longer. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        /** @description False: the time was over. */
                        readonly drained: boolean;
                    };
                };
            };
        };
    };
    readonly monitorSchedules: {
        readonly responses: {
            /** @description List all schedules with their next due times. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly schedules: readonly components["schemas"]["MonitorSchedule"][];
                    };
                };
            };
        };
    };
    readonly monitorSchedule: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly responses: {
            /** @description Show a schedule with its next due times. */
            readonly 200: {
                content: {
                    readonly "application/json": components["schemas"]["MonitorSchedule"];
                };
            };
        };
    };
    readonly monitorDeleteSchedule: {
        readonly parameters: {
            readonly query?: {
                readonly reason?: string;
            };
            readonly path: {
                readonly name: string;
            };
        };
        readonly responses: {
            /** @description End and delete a schedule. An occurrence that waits or runs goes on. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly deleted: boolean;
                    };
                };
            };
        };
    };
    readonly monitorPauseSchedule: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Make no further jobs of a schedule until it is resumed. An occurrence that waits or runs goes on. */
            readonly 200: {
                content: {
                    readonly "application/json": components["schemas"]["MonitorSchedule"];
                };
            };
        };
    };
    readonly monitorResumeSchedule: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description End a pause. Occurrences that were due meanwhile are skipped, or caught up with as onMissed says. */
            readonly 200: {
                content: {
                    readonly "application/json": components["schemas"]["MonitorSchedule"];
                };
            };
        };
    };
    readonly monitorRunSchedule: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Store one job of a schedule now, under its limits. It counts as no run, and the due times stay. */
            readonly 201: {
                content: {
                    readonly "application/json": {
                        /** @description The id of the job. */
                        readonly id: string;
                    };
                };
            };
        };
    };
    readonly monitorFlows: {
        readonly parameters: {
            readonly query?: {
                readonly workflow?: string;
                readonly key?: string;
                readonly state?: string;
                readonly kind?: "chain" | "group" | "batch" | "workflow" | "machine" | "graph";
                readonly size?: number;
                readonly cursor?: string;
            };
        };
        readonly responses: {
            /** @description List flows, newest first. Go on while a page has a cursor. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly flows: readonly components["schemas"]["MonitorFlow"][];
                        readonly cursor: string | null;
                    };
                };
            };
        };
    };
    readonly monitorStartFlow: {
        readonly requestBody: {
            readonly content: {
                readonly "application/json": {
                    readonly workflow: string;
                    readonly input?: unknown;
                    readonly key?: string;
                    readonly delay?: string;
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description It was there before: nothing was stored. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly id: string;
                        readonly duplicate: boolean;
                    };
                };
            };
            /** @description Start a flow of a workflow that the engine lists. With a key that a running flow has, the answer names it. */
            readonly 201: {
                content: {
                    readonly "application/json": {
                        readonly id: string;
                        readonly duplicate: boolean;
                    };
                };
            };
        };
    };
    readonly monitorFlow: {
        readonly parameters: {
            readonly path: {
                readonly id: string;
            };
        };
        readonly responses: {
            /** @description Show a flow with its result and its steps; a step that waits has its explanation. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly id: string;
                        /** @enum {string} */
                        readonly kind: "chain" | "group" | "batch" | "workflow" | "machine" | "graph";
                        readonly name: string | null;
                        readonly workflow: string | null;
                        readonly key: string | null;
                        /** @enum {string} */
                        readonly state: "running" | "completed" | "failed" | "cancelled";
                        readonly total: number;
                        readonly completed: number;
                        readonly discarded: number;
                        readonly cancelled: number;
                        /** Format: date-time */
                        readonly createdAt: string;
                        readonly finishedAt: string | null;
                        readonly error: ({
                            readonly code: string;
                            readonly message: string;
                        } & {
                            readonly [key: string]: unknown;
                        }) | null;
                        readonly parent: {
                            readonly id: string;
                            readonly step: string;
                        } | null;
                        readonly meta: {
                            readonly [key: string]: unknown;
                        };
                        readonly result?: unknown;
                        readonly steps: readonly components["schemas"]["MonitorFlowStep"][];
                    };
                };
            };
        };
    };
    readonly monitorExplainFlow: {
        readonly parameters: {
            readonly path: {
                readonly id: string;
            };
        };
        readonly responses: {
            /** @description Explain what a flow waits for, and when it goes on. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly words: string;
                        readonly waits: readonly components["schemas"]["MonitorFlowStep"][];
                    };
                };
            };
        };
    };
    readonly monitorCancelFlow: {
        readonly parameters: {
            readonly path: {
                readonly id: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Cancel a flow and the children that it waits for. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly done: boolean;
                        readonly flow: components["schemas"]["MonitorFlow"];
                    };
                };
            };
        };
    };
    readonly monitorRetryFlow: {
        readonly parameters: {
            readonly path: {
                readonly id: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    readonly from?: string;
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Run a failed flow again: from where it failed, or from a step on. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly done: boolean;
                        readonly flow: components["schemas"]["MonitorFlow"];
                    };
                };
            };
        };
    };
    readonly monitorSignalFlow: {
        readonly parameters: {
            readonly path: {
                readonly id: string;
            };
        };
        readonly requestBody: {
            readonly content: {
                readonly "application/json": {
                    readonly name: string;
                    readonly payload?: unknown;
                    readonly once?: string;
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Send a signal to a running flow of a workflow. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly done: boolean;
                        readonly flow: components["schemas"]["MonitorFlow"];
                    };
                };
            };
        };
    };
    readonly monitorWorkers: {
        readonly responses: {
            /** @description List the workers: processes of engines, and remote ones, with what each runs. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly workers: readonly components["schemas"]["MonitorWorker"][];
                    };
                };
            };
        };
    };
    readonly monitorQuietWorker: {
        readonly parameters: {
            readonly path: {
                readonly name: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Let a remote worker take no more jobs. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly done: boolean;
                    };
                };
            };
        };
    };
    readonly monitorTasks: {
        readonly parameters: {
            readonly query?: {
                readonly window?: "10m" | "1h" | "6h" | "1d" | "2d";
            };
        };
        readonly responses: {
            /** @description List the tasks with their run times, their failures and how long their jobs waited for budgets. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly window: string;
                        readonly tasks: readonly {
                            readonly task: string;
                            /** @description A live worker lists it. */
                            readonly listed: boolean;
                            readonly started: number;
                            readonly completed: number;
                            readonly failed: number;
                            readonly failureRate: number | null;
                            readonly p50Ms: number | null;
                            readonly p95Ms: number | null;
                            readonly p99Ms: number | null;
                            readonly waited: number;
                            readonly waitedMs: number;
                            readonly waitP95Ms: number | null;
                            /** @description The 5 limits that its jobs waited for longest, in all. */
                            readonly waits: readonly {
                                readonly limit: string;
                                readonly ms: number;
                            }[];
                        }[];
                    };
                };
            };
        };
    };
    readonly monitorSeries: {
        readonly parameters: {
            readonly query: {
                readonly metric: string;
                readonly limit?: string;
                readonly key?: string;
                readonly queue?: string;
                readonly task?: string;
                readonly from?: string;
                readonly to?: string;
                readonly step?: "10s" | "1m" | "15m";
            };
        };
        readonly responses: {
            /** @description Show counts over time, of all or of one limit, key, queue or task. The step at work is not counted yet. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        /** @description ms */
                        readonly step: number;
                        /** Format: date-time */
                        readonly from: string;
                        /** Format: date-time */
                        readonly to: string;
                        /** @description Units that the limit allows in a step, by its policy without overrides; of one key, if it has keys. Null: no limit is asked for, or its policy has no rate. */
                        readonly budget: number | null;
                        readonly series: readonly {
                            /** @enum {string} */
                            readonly metric: "started" | "completed" | "failed" | "denied" | "waitedMs" | "units" | "runP50" | "runP95" | "runP99" | "waitP50" | "waitP95" | "waitP99" | "budget";
                            /** @enum {string} */
                            readonly unit: "jobs" | "ms" | "units" | "share";
                            readonly points: readonly (readonly [
                                number,
                                number | null
                            ])[];
                        }[];
                    };
                };
            };
        };
    };
    readonly monitorBulks: {
        readonly responses: {
            /** @description List the changes of many jobs, newest first. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly bulks: readonly components["schemas"]["MonitorBulk"][];
                    };
                };
            };
        };
    };
    readonly monitorStartBulk: {
        readonly requestBody: {
            readonly content: {
                readonly "application/json": {
                    /** @enum {string} */
                    readonly action: "cancel" | "retry" | "delete" | "move" | "priority";
                    /** @description The fields of a search of jobs, by their names there. */
                    readonly filter: {
                        readonly [key: string]: string | readonly string[];
                    };
                    /**
                     * @description Has to be set if the filter is empty.
                     * @constant
                     */
                    readonly all?: true;
                    /** @description With move: the queue. */
                    readonly to?: string;
                    readonly priority?: number;
                    /** @description Only counts. */
                    readonly dryRun?: boolean;
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description The change has begun; with dryRun (200) the number of jobs that it would apply to. */
            readonly 202: {
                content: {
                    readonly "application/json": components["schemas"]["MonitorBulk"] | {
                        readonly count: number;
                        readonly exact: boolean;
                    };
                };
            };
        };
    };
    readonly monitorBulk: {
        readonly parameters: {
            readonly path: {
                readonly id: string;
            };
        };
        readonly responses: {
            /** @description Show a change of many jobs, and how far it has come. */
            readonly 200: {
                content: {
                    readonly "application/json": components["schemas"]["MonitorBulk"];
                };
            };
        };
    };
    readonly monitorStopBulk: {
        readonly parameters: {
            readonly path: {
                readonly id: string;
            };
        };
        readonly requestBody?: {
            readonly content: {
                readonly "application/json": {
                    /** @description Why: kept in the record of changes. */
                    readonly reason?: string;
                };
            };
        };
        readonly responses: {
            /** @description Stop a change of many jobs after the batch at work. */
            readonly 200: {
                content: {
                    readonly "application/json": components["schemas"]["MonitorBulk"];
                };
            };
        };
    };
    readonly monitorAudit: {
        readonly parameters: {
            readonly query?: {
                readonly who?: string;
                readonly action?: string;
                readonly subject?: string;
                readonly since?: string;
                readonly until?: string;
                readonly size?: number;
                readonly cursor?: string;
            };
        };
        readonly responses: {
            /** @description List who changed what, when, from where and why, newest first. Changes are kept for 90 days. */
            readonly 200: {
                content: {
                    readonly "application/json": {
                        readonly entries: readonly {
                            readonly id: number;
                            /** Format: date-time */
                            readonly at: string;
                            readonly who: string;
                            readonly tenant: string;
                            readonly action: string;
                            readonly subject: string;
                            readonly from: string | null;
                            readonly reason: string | null;
                            readonly request: unknown;
                            readonly requestId: string | null;
                        }[];
                        readonly cursor: string | null;
                    };
                };
            };
        };
    };
}
