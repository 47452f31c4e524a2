import type { Server } from '../server.ts'
import { countsOf } from './queues.ts'

/** The server's numbers in the text format of Prometheus. Labels are states and event types, never keys. */
export async function metricsText(server: Server): Promise<string> {
  const store = await server.remote.store()
  const counts = countsOf(await server.counts.of())
  const workers = (await store.workers()).filter((worker) => worker.alive && worker.name !== null)
  const waiting = await server.sluice.limits.waiting({ rows: 1 })
  return [
    ...series('ojs_jobs', 'gauge', 'Jobs by state.', 'state', Object.entries(counts)),
    ...series('ojs_events_total', 'counter', 'Events since the start, by type.', 'type', [...server.events.counts]),
    ...single('ojs_workers', 'gauge', 'Remote workers with a request within the last minute.', workers.length),
    ...single('ojs_rate_limit_waiting', 'gauge', 'Jobs that wait for a budget.', waiting.waiting),
    '',
  ].join('\n')
}

function series(
  name: string,
  type: string,
  help: string,
  label: string,
  values: readonly (readonly [string, number])[],
): string[] {
  return [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${type}`,
    ...values.map(([of, n]) => `${name}{${label}="${of}"} ${n}`),
  ]
}

function single(name: string, type: string, help: string, value: number): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, `${name} ${value}`]
}
