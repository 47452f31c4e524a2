import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type * as Package from '../../../src/exports/index.ts'
import type * as FlowsDoor from '../../../src/exports/flows.ts'
import { type Budget, type Engine, nowUs, type Payload, type Setting, type Side } from '../engine.ts'
import { dropSchema } from './schema.ts'

/** The package here, or that of another build. */
async function load(build: string | undefined): Promise<typeof Package & typeof FlowsDoor> {
  const pathOf = (door: string): string =>
    build === undefined ? `../../../src/exports/${door}.ts` : join(build, `dist/exports/${door}.js`)
  const doors = await Promise.all(['index', 'flows'].map((door) => import(pathOf(door))))
  return Object.assign({}, ...doors) as typeof Package & typeof FlowsDoor
}

function policyOf({ kind, perSecond }: Budget): Package.Policy {
  if (kind === 'sliding') return { window: 'sliding', max: perSecond, per: '1s' }
  if (kind === 'every') return { every: 1000 / perSecond }
  return { rate: perSecond, per: '1s', burst: kind === 'strict' ? 1 : perSecond }
}

const begun = new Map<number, number>()
let runs = 0

/** A workflow of steps in place. */
async function stepsOf(build: string | undefined) {
  const { input, workflow } = await load(build)
  return workflow('bench.steps', input<{ steps: number; run: number; waits: boolean }>(), {
    signals: { go: input<null>() },
    async run({ steps, run, waits }, flow) {
      for (let n = 0; n < steps; n++)
        await flow.step(`s${n}`, () => {
          if (n === 0) begun.set(run, nowUs())
        })
      if (waits) await flow.signal('go')
    },
  })
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
  const body = await stepsOf(build)
  const engine = new Sluice({
    store,
    tasks: [job],
    workflows: [body],
    queues: { default: served },
    // Graphile Worker and BullMQ delete finished jobs too.
    ...(profile === 'best' && { retention: { completed: 0 } }),
    logger,
  })
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
    flows: {
      async run(steps) {
        const run = runs++
        await (await body.start({ steps, run, waits: false })).result()
        const atUs = begun.get(run) ?? NaN
        begun.delete(run)
        return atUs
      },
      /** A signal wakes it: it left the process while it waited. */
      async enter(steps) {
        const parked = new Promise<void>((resolve) => void engine.on('flow.parked', () => resolve()))
        const flow = await body.start({ steps, run: runs++, waits: true })
        await parked
        const startUs = nowUs()
        await body.signal(flow.id, 'go', null)
        await flow.result()
        return (nowUs() - startUs) / 1000
      },
    },
    close: () => engine.stop({ within: '1s' }),
  }
}

const ignore = (): void => undefined
/** A producer without workers is meant. */
const logger: Package.Logger = { debug: ignore, info: ignore, warn: ignore, error: (...args) => console.error(...args) }

const COMMON = {
  settings: { ordinary: 'concurrency as given', best: 'ten times that concurrency, completed jobs are deleted' },
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
