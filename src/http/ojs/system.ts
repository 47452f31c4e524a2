import { z } from 'zod'
import { ok, operation, type Operation } from '../operation.ts'

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

/** Returns whether the server accepts requests: its store answers, its tables are known, and it claims. */
export const ready: Operation = operation({
  method: 'GET',
  path: '/ready',
  name: 'ready',
  probe: true,
  summary: 'Report within 2 s whether the server accepts requests, its store answers, and its claims go on.',
  answers: { 200: 'The server accepts requests.', 503: 'The body names what is not as it has to be.' },
  async run({ server }) {
    const checks = { server: server.ready() ? 'ok' : 'starts or stops', ...(await server.health.checks()) }
    const well = Object.values(checks).every((each) => each === 'ok')
    return { status: well ? 200 : 503, body: { status: well ? 'ready' : 'unavailable', checks } }
  },
})

/** The same, where monitors look for it beside `/health/live`. */
export const healthReady: Operation = { ...ready, path: '/health/ready', name: 'healthReady' }

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
