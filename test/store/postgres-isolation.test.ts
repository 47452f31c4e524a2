// Levels of isolation other than READ COMMITTED: a statement behind a lock would not see what the lock waited for.
import { Pool, type PoolClient } from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import type { NewJob } from '../../src/jobs/job.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { job } from './plain-job.ts'
import { POSTGRES_URL } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'
import { watchedStore } from './postgres-watched.ts'

const LEVELS = ['REPEATABLE READ', 'SERIALIZABLE']

withPostgres('levels of isolation on PostgreSQL', () => {
  const watched = watchedStore('isolation')
  const pool = new Pool({ connectionString: POSTGRES_URL, max: 2, options: `-c search_path=${watched.schema}` })

  beforeAll(() => watched.store.open())

  afterAll(async () => {
    await pool.end()
    await watched.end()
  })

  const keyed = (key: string): NewJob => ({
    ...job('work'),
    unique: { key, onConflict: 'ignore', states: ['available'], withinUs: null },
  })

  /** A transaction of the caller, whose snapshot is taken. It is rolled back at the end. */
  async function begun(level: string): Promise<PoolClient> {
    const client = await pool.connect()
    onTestFinished(async () => {
      await client.query('ROLLBACK')
      client.release()
    })
    await client.query(`BEGIN ISOLATION LEVEL ${level}`)
    await client.query('SELECT 1 FROM jobs LIMIT 1')
    return client
  }

  describe.each(LEVELS)("a caller's transaction at %s", (level) => {
    test('stores no job with a unique key: it would not see the job that has it', async () => {
      const tx = await begun(level)
      await watched.store.enqueue([keyed(level)])
      await expect(watched.store.enqueue([keyed(level)], tx)).rejects.toMatchObject({
        code: 'store.io',
        lasts: undefined,
        message: expect.stringMatching(/unique key.*READ COMMITTED.*\(25000\)/) as string,
      })
    })

    test('stores none by SQL either', async () => {
      const tx = await begun(level)
      await expect(tx.query("SELECT enqueue('a', unique_key => 'k')")).rejects.toMatchObject({ code: '25000' })
    })

    test('stores jobs without such a key', async () => {
      const tx = await begun(level)
      const stored = job('work')
      expect(await watched.store.enqueue([stored], tx)).toEqual([{ kind: 'created', id: stored.id }])
    })
  })

  // PostgreSQL reads what is not committed at neither.
  test.each(['READ COMMITTED', 'READ UNCOMMITTED'])(
    'at %s it finds the job that got the key after its begin',
    async (level) => {
      const tx = await begun(level)
      const first = keyed(level)
      await watched.store.enqueue([first])
      expect(await watched.store.enqueue([keyed(level)], tx)).toEqual([{ kind: 'duplicate', id: first.id }])
    },
  )

  test.each(LEVELS)('a store whose connections begin at %s refuses to open, and says what to set', async (level) => {
    const own = new Pool({
      connectionString: POSTGRES_URL,
      max: 2,
      options: `-c default_transaction_isolation=${level.toLowerCase().replace(' ', String.raw`\ `)}`,
    })
    onTestFinished(() => own.end())
    const { schema } = watched
    const store = new PostgresStore({
      connection: own,
      schema,
      clock: systemClock,
      retention: RETENTION,
      notify: false,
    })
    const refused = {
      code: 'store.io',
      lasts: undefined,
      message: expect.stringContaining("SET default_transaction_isolation = 'read committed'") as string,
    }
    await expect(store.open()).rejects.toMatchObject(refused)
    await expect(store.upgrade(true)).rejects.toMatchObject(refused)
    await expect(store.openExisting()).rejects.toMatchObject(refused)
  })
})
