import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type * as Package from '../../../src/exports/index.ts'
import type { Budget, Engine, Payload, Setting, Side } from '../engine.ts'
import { dropSchema } from './schema.ts'

/** The package here, or that of another build. */
async function load(build: string | undefined): Promise<typeof Package> {
  const path = build === undefined ? '../../../src/exports/index.ts' : join(build, 'dist/exports/index.js')
  return (await import(path)) as typeof Package
}

function policyOf({ kind, perSecond }: Budget): Package.Policy {
  if (kind === 'sliding') return { window: 'sliding', max: perSecond, per: '1s' }
  if (kind === 'every') return { every: 1000 / perSecond }
  return { rate: perSecond, per: '1s', burst: kind === 'strict' ? 1 : perSecond }
}

async function open(setting: Setting, store: string): Promise<Side> {
  const { profile, concurrency, budget, share, stripes, build } = setting
  const { input, limit, Sluice, task } = await load(build)
  let handler = (_: Payload): void | Promise<void> => undefined
  const perKey = limit('per-key', policyOf(budget ?? { kind: 'never', perSecond: 1 }))
  const job = task('bench.job', input<Payload>(), {
    limits: budget === undefined ? [] : [perKey.by((payload) => payload.key ?? null)],
    ...(share !== undefined && { share }),
    run: (payload) => handler(payload),
  })
  const served = {
    concurrency: profile === 'best' ? concurrency * 10 : concurrency,
    ...(stripes !== undefined && { stripes }),
  }
  const engine = new Sluice({ store, tasks: [job], queues: { default: served }, logger })
  return {
    enqueue: (payload) => job.enqueue(payload),
    enqueueMany: (payloads) => job.enqueueMany([...payloads]),
    result: async (payload) => (await job.enqueue(payload)).result(),
    work(run) {
      handler = run
      return engine.start()
    },
    // Every job has started when this is asked, and none is tried again.
    hasWork: async () => (await engine.jobs.list({ states: ['active'], limit: 1 })).length > 0,
    close: () => engine.stop({ within: '1s' }),
  }
}

const ignore = (): void => undefined
/** A producer without workers is meant. */
const logger: Package.Logger = { debug: ignore, info: ignore, warn: ignore, error: (...args) => console.error(...args) }

const COMMON = {
  settings: { ordinary: 'concurrency as given', best: 'ten times that concurrency' },
  budgets: 'a limit by key',
}

/** Sluice on PostgreSQL. */
export const sluicePostgres: Engine = {
  ...COMMON,
  label: 'Sluice on PostgreSQL',
  open(setting) {
    const url = new URL(setting.postgres)
    url.searchParams.set('schema', setting.space)
    return open(setting, url.toString())
  },
  erase: ({ postgres, space }) => dropSchema(postgres, space),
}

/** Sluice on a SQLite file, as it is set up by default: every commit is synced. */
export const sluiceSqlite: Engine = {
  ...COMMON,
  label: 'Sluice on SQLite',
  open: (setting) => open(setting, `sqlite:${fileOf(setting)}`),
  erase(setting) {
    for (const end of ['', '-wal', '-shm']) rmSync(fileOf(setting) + end, { force: true })
    return Promise.resolve()
  },
}

function fileOf({ folder, space }: Setting): string {
  return join(folder, `${space}.db`)
}
