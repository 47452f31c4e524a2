import { z } from 'zod'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { metricsText } from './metrics.ts'

const SPEC = '1.0'
const EXTENSIONS = [
  'rate-limiting',
  'dead-letter',
  'progress',
  'backpressure',
  'fair-scheduling',
  'multi-tenancy',
  'admin-api',
  'observability',
]

/** Describes the server and its features. */
export const manifest: Operation = operation({
  method: 'GET',
  path: '/ojs/manifest',
  name: 'manifest',
  summary: 'Describe the server and its features.',
  answers: { 200: 'The manifest.' },
  async run({ server }) {
    const features = [
      'retries',
      'dead_letter',
      'cron',
      'unique',
      'batch',
      'priority',
      'queue_pause',
      'events',
      'progress',
    ]
    return ok({
      specversion: SPEC,
      ojs_version: SPEC,
      implementation: { name: 'sluice', version: server.version, language: 'typescript' },
      conformance_level: server.serves('/ojs/v1/workflows') ? 4 : 2,
      protocols: ['http'],
      backend: server.backend,
      capabilities: Object.fromEntries(features.map((feature) => [feature, true])),
      extensions: {
        official: EXTENSIONS.map((name) => ({ name, uri: `urn:ojs:ext:${name}`, version: '1.0.0' })),
      },
    })
  },
})

/** Returns whether the server and its store work. */
export const health: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/health',
  name: 'health',
  probe: true,
  summary: 'Report whether the server and its store work.',
  answers: { 200: 'Both work.', 503: 'The store does not answer.' },
  async run({ server }) {
    const { clock, startedMs, backend } = server
    const status = await server.health.isWell()
    return {
      status: status ? 200 : 503,
      body: {
        status: status ? 'ok' : 'unhealthy',
        version: SPEC,
        uptime_seconds: Math.max(0, Math.floor((clock.now() - startedMs) / 1000)),
        backend: { type: backend, status: status ? 'ok' : 'unhealthy' },
      },
    }
  },
})

/** Returns whether the server accepts requests: false while it starts or stops. */
export const ready: Operation = operation({
  method: 'GET',
  path: '/ready',
  name: 'ready',
  probe: true,
  summary: 'Report whether the server accepts requests.',
  answers: { 200: 'The server accepts requests.', 503: 'The server starts or stops.' },
  async run({ server }) {
    const well = server.ready() && (await server.health.isWell())
    return { status: well ? 200 : 503, body: { status: well ? 'ready' : 'unavailable' } }
  },
})

/** Returns whether the process is alive, without asking the store. */
export const live: Operation = operation({
  method: 'GET',
  path: '/health/live',
  name: 'live',
  probe: true,
  summary: 'Report that the process is alive, without asking the store.',
  answers: { 200: 'The process is alive.' },
  run: async () => ok({ status: 'ok' }),
})

/** Returns whether the server accepts requests, within 2 s: the same as `/ready`. */
export const healthReady: Operation = operation({
  method: 'GET',
  path: '/health/ready',
  name: 'healthReady',
  probe: true,
  summary: 'Report within 2 s whether the server accepts requests and its store answers.',
  answers: { 200: 'The server accepts requests.', 503: 'The server starts or stops, or its store does not answer.' },
  run: (call) => ready.run(call as Call<never, never, never>),
})

/** Numbers for Prometheus. */
export const metrics: Operation = operation({
  method: 'GET',
  path: '/metrics',
  name: 'metrics',
  summary: 'Read metrics in the text format of Prometheus.',
  answers: { 200: 'The metrics.' },
  run: async ({ server }) => ({
    status: 200,
    body: await metricsText(server),
    headers: { 'Content-Type': 'text/plain' },
  }),
})

/** This document. */
export const openApiDocument: Operation = operation({
  method: 'GET',
  path: '/openapi.json',
  name: 'openApi',
  summary: 'Describe these operations in the form of OpenAPI 3.1.',
  answers: { 200: 'The document.' },
  run: async ({ server }) => ({
    status: 200,
    body: server.openApi(),
    headers: { 'Content-Type': 'application/json' },
  }),
})

/** Empties the store between two tests. */
export const reset: Operation = operation({
  method: 'POST',
  path: '/test/reset',
  name: 'reset',
  summary: 'Empty the store; only in test mode.',
  body: z.unknown().optional(),
  testOnly: true,
  answers: { 200: 'The store is empty.' },
  async run({ server }) {
    await server.remote.clear()
    server.names.clear()
    return ok({ reset: true })
  },
})
