// Engines behind a real pgBouncer in transaction mode: each transaction may go over another connection to the server.
import { Pool } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { expectWithinBudget } from '../acceptance/harness.ts'
import { systemClock } from '../../src/base/clock.ts'
import { input, limit, type Logger, Sluice, task } from '../../src/exports/index.ts'
import { checkStore } from '../../src/store/open.ts'
import { hasPgBouncer, throughPgBouncer } from '../pgbouncer.ts'
import { PostgresCluster } from '../postgres-cluster.ts'
import { ownPostgres } from '../stores.ts'
import { until } from './fleet.ts'

const LEFT_OUT = 'engines behind pgBouncer in transaction mode'
const READY = PostgresCluster.installed(LEFT_OUT) && hasPgBouncer(LEFT_OUT)
const JOBS = 2000
const KEYS = 20
const POLICY = { rate: 40, per: '1s', burst: 10 } as const

test.skipIf(!READY)(
  'two engines drain 2,000 keyed jobs over three connections within their budgets, and every call goes through',
  async () => {
    const cluster = await ownPostgres()
    const bouncer = await throughPgBouncer(cluster.url, 3)
    const complaints: unknown[] = []
    const complain = (about: object, message = ''): void => void complaints.push([message, about])
    const logger: Logger = { debug: () => undefined, info: () => undefined, warn: complain, error: complain }
    const crm = limit('crm', POLICY)
    const few = limit('few', { concurrency: 6 })
    const call = () =>
      task('call', input<{ tenant: string }>(), {
        limits: [crm.by(({ tenant }) => tenant), few],
        run: ({ tenant }) => tenant,
      })
    const store = `${bouncer}?schema=behind&notify=false&connections=8`
    const tasks = [call(), call()] as const
    const engines = tasks.map((each) => new Sluice({ store, tasks: [each], logger }))
    const [first] = engines as [Sluice, Sluice]
    for (const engine of engines) await engine.start()
    const tenants = Array.from({ length: JOBS }, (_, n) => ({ tenant: `t${n % KEYS}` }))
    const jobs = (
      await Promise.all(
        [0, 1].map((half) => tasks[half]!.enqueueMany(tenants.slice(half * (JOBS / 2), (half + 1) * (JOBS / 2)))),
      )
    ).flat()

    // The other calls that a program makes while they run.
    const pool = new Pool({ connectionString: bouncer, max: 2 })
    const client = await pool.connect()
    await client.query('BEGIN')
    await client.query(`SELECT behind.enqueue('call', '{"tenant":"sql"}')`)
    await client.query('COMMIT')
    client.release()
    const later = await tasks[0].enqueue({ tenant: 'later' }, { delay: '1h', unique: 'later' })
    expect((await tasks[1].enqueue({ tenant: 'later' }, { unique: 'later' })).duplicate).toBe(true)
    expect((await first.jobs.explain(later.id)).job.state).toBe('scheduled')
    expect(await first.jobs.cancel(later.id)).toBe(true)
    await first.limits.override('crm', 't0', { rate: 41 }, { until: '500ms' })
    await first.limits.pause('crm', 't1')
    await first.limits.resume('crm', 't1')
    expect((await first.limits.inspect('crm', 't2'))[0]).toMatchObject({ limit: 'crm', key: 't2' })

    await until('all have ended', async () => {
      const [oldest] = await first.jobs.list({ states: ['available', 'active', 'scheduled', 'retryable'], limit: 1 })
      return oldest === undefined
    })
    const { rows } = await pool.query<{ tenant: string; us: string; attempt: number; state: number }>(
      `SELECT input::json ->> 'tenant' AS tenant, started AS us, attempt, state FROM behind.jobs WHERE started IS NOT NULL`,
    )
    expect(rows).toHaveLength(jobs.length + 1)
    expect(rows.every(({ attempt, state }) => attempt === 1 && state === 3)).toBe(true)
    for (let key = 2; key < KEYS; key++) {
      const starts = rows
        .filter(({ tenant }) => tenant === `t${key}`)
        .map(({ us }) => ({ atUs: Number(us), weight: 1 }))
      expect(starts).toHaveLength(JOBS / KEYS)
      expectWithinBudget(POLICY, starts, `t${key}`)
    }
    for (const engine of engines) await engine.stop()
    await pool.end()
    expect(complaints).toEqual([])
  },
)

test.skipIf(!READY)('statement mode has no transactions: a start and its check say so', async () => {
  const cluster = await ownPostgres()
  const store = await throughPgBouncer(cluster.url, 3, 'statement')
  const refused = { code: 'store.io', message: expect.stringContaining('transaction or session mode') as string }
  const engine = new Sluice({ store, tasks: [] })
  onTestFinished(() => engine.stop({ within: 0 }))
  await expect(engine.start()).rejects.toMatchObject(refused)
  await expect(checkStore(store, systemClock)).rejects.toMatchObject(refused)
})

test.skipIf(!READY)(
  'an engine that hears of no other through it warns once, and one of session mode does not',
  async () => {
    const cluster = await ownPostgres()
    const heard = async (mode: 'transaction' | 'session'): Promise<unknown[]> => {
      const warnings: unknown[] = []
      const debug = (): void => undefined
      const warn = ({ err }: { err?: { code?: string } }): void => void warnings.push(err?.code)
      const logger = { debug, info: debug, warn, error: warn } as Logger
      const store = await throughPgBouncer(cluster.url, 12, mode)
      const engine = new Sluice({ store: `${store}?schema=${mode}`, tasks: [], logger })
      onTestFinished(() => engine.stop({ within: 0 }))
      await engine.start()
      // The answer to what came later tells that the engine had its chance.
      for (let i = 0; i < 20; i++) await engine.jobs.list()
      await expect.poll(() => warnings.length, { timeout: 3000 }).toBe(mode === 'transaction' ? 1 : 0)
      return warnings
    }
    expect(await heard('transaction')).toEqual(['store.notify.lost'])
    expect(await heard('session')).toEqual([])
  },
)
