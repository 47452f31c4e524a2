import { operation, type Operation } from '../operation.ts'
import { OPEN_METRICS, PROMETHEUS } from './exposition.ts'

/** Numbers for Prometheus. */
export const metrics: Operation = operation({
  method: 'GET',
  path: '/metrics',
  name: 'metrics',
  summary: 'Read metrics in the text format of Prometheus, or as OpenMetrics if Accept names it.',
  answers: { 200: 'The metrics.' },
  run: async ({ server, header }) => {
    const isOpen = (header('accept') ?? '').includes('application/openmetrics-text')
    return {
      status: 200,
      body: await server.metrics.text(server.events, isOpen),
      headers: { 'Content-Type': isOpen ? OPEN_METRICS : PROMETHEUS },
    }
  },
})
