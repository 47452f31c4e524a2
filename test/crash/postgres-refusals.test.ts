// A server that refuses for some seconds, as in a failover: read-only, or without a connection to spare. What ended meanwhile counts once.
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { input, type Logger, Sluice, task } from '../../src/exports/index.ts'
import { PostgresCluster } from '../postgres-cluster.ts'
import { ownPostgres } from '../stores.ts'

const REFUSALS = {
  'is read-only': [
    'ALTER ROLE app SET default_transaction_read_only = on',
    'ALTER ROLE app RESET default_transaction_read_only',
  ],
  'lets no connection in': ['ALTER ROLE app CONNECTION LIMIT 0', 'ALTER ROLE app CONNECTION LIMIT -1'],
} as const
const END_CONNECTIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'"

test.skipIf(!PostgresCluster.installed('a PostgreSQL that refuses')).each(Object.entries(REFUSALS))(
  'jobs of one attempt that end while the server %s are completed once, and the log tells of it once',
  async (_, [begin, end]) => {
    const postgres = await ownPostgres()
    const admin = new Client({ connectionString: postgres.url })
    await admin.connect()
    onTestFinished(() => admin.end())
    for (const sql of ['CREATE ROLE app LOGIN', 'GRANT CREATE ON DATABASE postgres TO app']) await admin.query(sql)
    const told: string[] = []
    const tell = (_fields: object, message: string): void => void told.push(message)
    const logger: Logger = { debug: () => undefined, info: () => undefined, warn: tell, error: tell }
    const runs = new Map<number, number>()
    const letGo = Promise.withResolvers<void>()
    const work = task('work.item', input<number>(), {
      retry: { attempts: 1 },
      run: async (n) => {
        runs.set(n, (runs.get(n) ?? 0) + 1)
        await letGo.promise
        return n
      },
    })
    const store = postgres.url.replace('postgres@', 'app@')
    const engine = new Sluice({ store, tasks: [work], logger, lease: '20s' })
    onTestFinished(() => engine.stop({ within: 0 }))
    await engine.start()
    const jobs = await work.enqueueMany(Array.from({ length: 8 }, (__, n) => n))
    await expect.poll(() => runs.size).toBe(8)

    await admin.query(begin)
    await admin.query(END_CONNECTIONS)
    letGo.resolve()
    await expect.poll(() => told.some((message) => message.startsWith('the settlement of a run failed'))).toBe(true)
    await admin.query(end)
    await admin.query(END_CONNECTIONS)

    expect(await Promise.all(jobs.map((job) => job.result({ timeout: '60s' })))).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    expect([...runs.values()]).toEqual(Array.from({ length: 8 }, () => 1))
    expect(new Set(told).size).toBe(told.length)
  },
)
