import { input, limit, Sluice, task } from '../../../src/exports/index.ts'
import { type Engine, type Payload, type Setting } from '../engine.ts'
import { dropSchema } from './schema.ts'

function store({ postgres, space }: Setting): string {
  const url = new URL(postgres)
  url.searchParams.set('schema', space)
  return url.toString()
}

/** Sluice on PostgreSQL. */
export const sluice: Engine = {
  label: 'Sluice on PostgreSQL',
  settings: { ordinary: 'concurrency 100', best: 'concurrency 1,000' },
  budgets: 'a limit by tenant',
  open(setting) {
    const { profile, concurrency, tenantPerSecond } = setting
    let handler = (_: Payload): void => undefined
    const perTenant = limit('tenant', { rate: tenantPerSecond ?? 1, per: '1s' })
    const job = task('bench.job', input<Payload>(), {
      limits: tenantPerSecond === undefined ? [] : [perTenant.by((payload) => payload.tenant ?? null)],
      run: (payload) => handler(payload),
    })
    const engine = new Sluice({
      store: store(setting),
      tasks: [job],
      queues: { default: { concurrency: profile === 'best' ? concurrency * 10 : concurrency } },
    })
    return Promise.resolve({
      enqueue: (payload) => job.enqueue(payload),
      enqueueMany: (payloads) => job.enqueueMany([...payloads]),
      work(run) {
        handler = run
        return engine.start()
      },
      close: () => engine.stop({ within: '1s' }),
    })
  },
  erase: (setting) => dropSchema(setting.postgres, setting.space),
}
