/** The answers of operations, and example requests, for the OpenAPI document. */

const time = { type: 'string', format: 'date-time' }
const nullable = (type: string): object => ({ type: [type, 'null'] })

/** Schemas that answers refer to. */
export const ANSWER_SCHEMAS: Readonly<Record<string, object>> = {
  Job: {
    type: 'object',
    required: ['specversion', 'id', 'type', 'state', 'queue', 'args', 'attempt'],
    properties: {
      specversion: { type: 'string' },
      id: { type: 'string', format: 'uuid' },
      type: { type: 'string' },
      state: {
        type: 'string',
        enum: ['scheduled', 'available', 'pending', 'active', 'completed', 'retryable', 'cancelled', 'discarded'],
      },
      queue: { type: 'string' },
      args: { type: 'array', items: {} },
      meta: { type: 'object', additionalProperties: true },
      priority: { type: 'integer' },
      attempt: { type: 'integer' },
      max_attempts: { type: 'integer' },
      created_at: time,
      started_at: time,
      completed_at: time,
      result: {},
      error: { type: 'object', additionalProperties: true },
      x_wait: { $ref: '#/components/schemas/Wait' },
    },
    additionalProperties: true,
  },
  Wait: {
    type: 'object',
    required: ['limit', 'key', 'position', 'expected_start', 'throttled_until', 'exact'],
    properties: {
      limit: { type: 'string' },
      key: nullable('string'),
      position: nullable('integer'),
      expected_start: { type: ['string', 'null'], format: 'date-time' },
      throttled_until: { type: ['string', 'null'], format: 'date-time' },
      exact: { type: 'boolean' },
    },
  },
  Pagination: {
    type: 'object',
    required: ['total'],
    properties: {
      total: { type: 'integer' },
      page: { type: 'integer' },
      per_page: { type: 'integer' },
      limit: { type: 'integer' },
      offset: { type: 'integer' },
      has_more: { type: 'boolean' },
      next_cursor: nullable('string'),
    },
  },
  Queue: {
    type: 'object',
    required: ['name', 'status', 'paused', 'throttled'],
    properties: {
      name: { type: 'string' },
      status: { type: 'string', enum: ['active', 'paused'] },
      paused: { type: 'boolean' },
      throttled: { type: 'integer' },
      created_at: time,
    },
    additionalProperties: true,
  },
  RateLimit: {
    type: 'object',
    required: ['key', 'on_limit', 'waiting_count', 'partitions'],
    properties: {
      key: { type: 'string' },
      on_limit: { type: 'string' },
      concurrency: { type: 'object', additionalProperties: true },
      rate: { type: 'object', additionalProperties: true },
      throttle: { type: 'object', additionalProperties: true },
      x_guard: { type: 'string' },
      waiting_count: { type: 'integer' },
      partitions: { type: 'integer' },
    },
    additionalProperties: true,
  },
  Cron: {
    type: 'object',
    required: ['name', 'type'],
    properties: {
      name: { type: 'string' },
      type: { type: 'string' },
      expression: { type: 'string' },
      next_run_at: time,
      last_run_at: time,
    },
    additionalProperties: true,
  },
  Workflow: {
    type: 'object',
    required: ['id', 'type', 'state', 'created_at', 'metadata'],
    properties: {
      id: { type: 'string', format: 'uuid' },
      type: { type: 'string' },
      state: { type: 'string' },
      created_at: time,
      metadata: { type: 'object', additionalProperties: true },
    },
    additionalProperties: true,
  },
  Flow: {
    type: 'object',
    required: ['id', 'workflow', 'kind', 'key', 'state', 'created_at', 'finished_at', 'error', 'parent'],
    properties: {
      id: { type: 'string', format: 'uuid' },
      workflow: { type: 'string' },
      kind: { type: 'string', enum: ['workflow', 'machine', 'graph'] },
      key: nullable('string'),
      state: { type: 'string', enum: ['running', 'completed', 'failed', 'cancelled'] },
      created_at: time,
      finished_at: { type: ['string', 'null'], format: 'date-time' },
      error: { type: ['object', 'null'], additionalProperties: true },
      parent: { type: ['object', 'null'], additionalProperties: true },
      meta: { type: 'object', additionalProperties: true },
      result: {},
      result_omitted: { type: 'boolean' },
      steps: { type: 'array', items: { $ref: '#/components/schemas/FlowStep' } },
    },
  },
  FlowStep: {
    type: 'object',
    required: ['name', 'state', 'attempt', 'started_at', 'finished_at', 'waited_ms', 'waited_for', 'until', 'error'],
    properties: {
      name: { type: 'string' },
      state: {
        type: 'string',
        enum: ['pending', 'done', 'running', 'waiting', 'sleeping', 'awaiting', 'failed', 'skipped'],
      },
      attempt: { type: 'integer' },
      started_at: { type: ['string', 'null'], format: 'date-time' },
      finished_at: { type: ['string', 'null'], format: 'date-time' },
      waited_ms: { type: 'number' },
      waited_for: { type: ['object', 'null'], additionalProperties: true },
      wait: { type: 'object', additionalProperties: true },
      until: { type: ['string', 'null'], format: 'date-time' },
      signals: { type: 'array', items: { type: 'string' } },
      child: { type: 'object', additionalProperties: true },
      left: { type: 'integer' },
      result: {},
      result_omitted: { type: 'boolean' },
      error: { type: ['object', 'null'], additionalProperties: true },
    },
  },
  Settled: {
    type: 'object',
    required: ['id', 'state'],
    properties: { id: { type: 'string', format: 'uuid' }, state: { type: 'string' } },
    additionalProperties: true,
  },
}

const ref = (name: string): object => ({ $ref: `#/components/schemas/${name}` })
const holding = (name: string, schema: object): object => ({
  type: 'object',
  required: [name],
  properties: { [name]: schema },
  additionalProperties: true,
})
const listing = (name: string, schema: object, beside: Readonly<Record<string, object>> = {}): object => ({
  type: 'object',
  required: [name, 'pagination'],
  properties: { [name]: { type: 'array', items: schema }, ...beside, pagination: ref('Pagination') },
  additionalProperties: true,
})
const ANY = { type: 'object', additionalProperties: true }
const PERMIT = {
  type: ['object', 'null'],
  required: ['id', 'limits'],
  properties: {
    id: { type: 'string' },
    limits: {
      type: 'array',
      items: {
        type: 'object',
        required: ['limit', 'key'],
        properties: { limit: { type: 'string' }, key: nullable('string') },
      },
    },
  },
}
const UNITS = {
  type: 'object',
  required: ['granted'],
  properties: {
    granted: { type: 'boolean' },
    granted_at_us: { type: 'integer' },
    permit: PERMIT,
    limit: { type: 'string' },
    key: nullable('string'),
    retry_after_ms: nullable('number'),
  },
}
const ofUnits = (name: string, schema: object, beside: Readonly<Record<string, object>> = {}): object => ({
  type: 'object',
  required: [name],
  properties: { [name]: schema, ...beside },
})
const LISTED = { type: 'array', items: { type: 'string' } }
const OF: Readonly<Record<string, object>> = {
  enqueueJob: holding('job', ref('Job')),
  getJob: holding('job', ref('Job')),
  cancelJob: holding('job', ref('Job')),
  activateJob: holding('job', ref('Job')),
  adminGetJob: ref('Job'),
  enqueueBatch: holding('jobs', { type: 'array', items: ref('Job') }),
  fetchJobs: holding('jobs', { type: 'array', items: ref('Job') }),
  ackJob: ref('Settled'),
  nackJob: ref('Settled'),
  adminRetryJob: ref('Job'),
  adminCancelJob: ref('Job'),
  listJobs: listing('items', ref('Job')),
  listDeadLetter: listing('jobs', ref('Job')),
  adminListDeadLetter: listing('items', ref('Job')),
  getDeadLetter: holding('job', ref('Job')),
  adminGetDeadLetter: ref('Job'),
  retryDeadLetter: holding('job', ref('Job')),
  adminRetryDeadLetter: holding('job', ref('Job')),
  listQueues: listing('queues', ref('Queue')),
  listRateLimits: listing('items', ref('RateLimit')),
  getRateLimit: ref('RateLimit'),
  putRateLimit: ref('RateLimit'),
  registerCron: holding('cron', ref('Cron')),
  listCron: listing('crons', ref('Cron')),
  createWorkflow: holding('workflow', ref('Workflow')),
  getWorkflow: holding('workflow', ref('Workflow')),
  cancelWorkflow: holding('workflow', ref('Workflow')),
  acquireUnits: holding('answers', { type: 'array', items: UNITS }),
  reserveUnits: ofUnits(
    'booked',
    { type: 'boolean' },
    {
      id: { type: 'string' },
      start_after_ms: { type: 'number' },
      limit: { type: 'string' },
      key: nullable('string'),
      retry_after_ms: nullable('number'),
    },
  ),
  confirmReservation: ofUnits(
    'state',
    { type: 'string', enum: ['go', 'wait', 'gone'] },
    {
      granted_at_us: { type: 'integer' },
      permit: PERMIT,
      start_after_ms: { type: 'number' },
      limit: { type: 'string' },
      key: nullable('string'),
    },
  ),
  releasePermits: holding('cancelled', LISTED),
  extendPermits: holding('ended', LISTED),
  penalizeBucket: holding('changed', { type: 'boolean' }),
  listBudgets: holding('limits', { type: 'array', items: ANY }),
  startFlow: {
    type: 'object',
    required: ['id', 'duplicate'],
    properties: { id: { type: 'string', format: 'uuid' }, duplicate: { type: 'boolean' } },
  },
  listFlows: {
    type: 'object',
    required: ['flows', 'next_cursor'],
    properties: { flows: { type: 'array', items: ref('Flow') }, next_cursor: nullable('string') },
  },
  getFlow: ref('Flow'),
  explainFlow: {
    type: 'object',
    required: ['words', 'waits'],
    properties: { words: { type: 'string' }, waits: { type: 'array', items: ref('FlowStep') } },
  },
  signalFlow: { type: 'object', required: ['duplicate'], properties: { duplicate: { type: 'boolean' } } },
  cancelFlow: holding('flow', ref('Flow')),
  retryFlow: holding('flow', ref('Flow')),
  listEvents: {
    type: 'object',
    required: ['events', 'cursor', 'has_more'],
    properties: {
      events: { type: 'array', items: ANY },
      cursor: { type: 'string' },
      has_more: { type: 'boolean' },
    },
  },
}

/** The body of an operation's success: its content type and schema. */
export function answerOf(operation: string, mediaType: string): { readonly content: Record<string, object> } {
  if (operation === 'metrics') return { content: { 'text/plain': { schema: { type: 'string' } } } }
  if (operation === 'streamEvents' || operation === 'monitorStream')
    return { content: { 'text/event-stream': { schema: { type: 'string' } } } }
  return { content: { [mediaType]: { schema: OF[operation] ?? ANY } } }
}

/** An example request of an operation; undefined: there is none. */
export function exampleOf(operation: string): unknown {
  return EXAMPLES[operation]
}

const ID = '019539a4-b68c-7def-8000-1a2b3c4d5e6f'
const EXAMPLES: Readonly<Record<string, unknown>> = {
  enqueueJob: {
    type: 'mail.send',
    args: ['a@acme.test'],
    options: { queue: 'mail', rate_limit: { key: 'smtp', rate: { limit: 15, period: 'PT1M' } } },
  },
  enqueueBatch: { jobs: [{ type: 'mail.send', args: ['a@acme.test'], options: { queue: 'mail' } }] },
  fetchJobs: { queues: ['mail'], worker_id: 'worker-1', count: 1, wait: 'PT20S' },
  acquireUnits: { requests: [{ uses: [{ limit: 'crm', key: 'acme' }] }], wait_ms: 5000 },
  reserveUnits: { uses: [{ limit: 'crm', key: 'acme' }], at_most_ms: 60_000 },
  penalizeBucket: { limit: 'crm', key: 'acme', for_ms: 30_000 },
  ackJob: { job_id: ID, worker_id: 'worker-1', attempt: 1, result: { sent: true } },
  nackJob: { job_id: ID, error: { code: 'handler_error', message: 'the API answered 429', retry_after: 30 } },
  heartbeat: { worker_id: 'worker-1', active_jobs: [ID] },
  putRateLimit: { rate: { limit: 5, period: 'PT1M' }, expires_at: 'PT1H' },
  startFlow: { input: { order: 17 }, key: 'order-17', delay: 'PT5M' },
  signalFlow: { payload: { by: 'ann' }, once: 'click-1' },
  registerCron: { name: 'nightly', cron: '0 3 * * *', type: 'report.make', args: [] },
}

/** The conventions of all operations. */
export const CONVENTIONS: string = [
  'Conventions. **Errors** have the body `{ error: { code, message, retryable, hint, docs_url, request_id } }`.',
  '**Retry-After**, in whole seconds, is in every 429 and 503: send the same request again no sooner.',
  '**Cursors** are opaque: send the `cursor` of an answer back unchanged to continue behind it. Lists with `page` and `per_page` count from 1. A page of jobs is cut at 8 MiB: send its `next_cursor` as `cursor` to continue.',
  '**ETag**: no operation sends or reads one. Reads return the current state, and settlements are guarded by `worker_id` and `attempt`.',
  '**X-Request-Id** is repeated, or created, and is in the log. **OJS-Version** may be any 1.x.',
].join('\n\n')
