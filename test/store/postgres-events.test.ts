// Events of the fleet while transactions of others are open: they commit in another order than that of their ids.
import { Pool, type PoolClient } from 'pg'
import { uuidv7 } from 'uuidv7'
import { expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { dropSchema } from '../drop-schema.ts'
import { job } from './plain-job.ts'
import { POSTGRES_URL } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'

const LEASE_US = 30_000_000

withPostgres('events of the fleet on PostgreSQL', () => {
  test('a transaction that commits late is read late, once, and those that commit before it are not held up', async () => {
    const { store, begin, reader, newJob } = await setUp()
    const follower = await reader()
    const [early, late] = [await begin(), await begin()]
    const [first, second, third] = [newJob(), newJob(), newJob()]
    // The ids of their changes are given in this order.
    await store.enqueue([first], early)
    await store.enqueue([second], late)
    await store.enqueue([third])
    expect(await follower.ids()).toEqual([third.id])
    await late.query('COMMIT')
    expect(await follower.ids()).toEqual([second.id])
    expect(await follower.keep()).toBe('kept')
    await early.query('COMMIT')
    expect(await follower.ids()).toEqual([first.id])
    expect(await follower.ids()).toEqual([])
  })

  test('what a rolled back transaction did is never told', async () => {
    const { store, begin, reader, newJob } = await setUp()
    const follower = await reader()
    const tx = await begin()
    const [undone, done] = [newJob(), newJob()]
    await store.enqueue([undone], tx)
    await store.enqueue([done])
    await tx.query('ROLLBACK')
    expect(await follower.ids()).toEqual([done.id])
    expect(await follower.ids()).toEqual([])
  })

  test('a reader that joins while a transaction writes waits for it briefly, and holds no writer up for longer', async () => {
    const { store, begin, reader, newJob } = await setUp()
    const tx = await begin()
    await store.enqueue([newJob()], tx)
    // The transaction writes without knowing that there is a reader, so the reader cannot begin.
    expect(await store.joinEvents(uuidv7(), LEASE_US)).toBe(null)
    const other = newJob()
    await store.enqueue([other])
    await tx.query('COMMIT')
    const follower = await reader()
    const next = newJob()
    await store.enqueue([next])
    expect(await follower.ids()).toEqual([next.id])
  })

  test.each([true, false])(
    'an upgrade goes on to tell a reader what it was told before, if one lives: %s',
    async (lives) => {
      const { store, reader, newJob, count, earlier, reopen } = await setUp()
      const follower = lives ? await reader() : null
      await earlier()
      const upgraded = await reopen()
      const worker = await upgraded.join(['q'], 1e12)
      const { id } = newJob()
      await store.enqueue([{ ...newJob(), id }])
      const queues = [{ queue: 'q', slots: 1 }]
      const { jobs } = await upgraded.claim(() => ({ worker, leaseUs: 1e9, queues }))
      const { seq, attempt } = jobs[0]!
      await upgraded.settle(worker, { seq, attempt, kind: 'complete', result: null, keepUs: 0 })
      expect(await upgraded.get(id)).toBeNull()
      expect(await count()).toBe(lives ? 3 : 0)
      if (follower) expect(await follower.ids()).toEqual([id, id, id])
    },
  )

  test('without a reader that lives and a worker that prunes, the last 20,000 are kept', async () => {
    const { store, begin, newJob, count, write, endLeases } = await setUp()
    const reader = uuidv7()
    await store.joinEvents(reader, LEASE_US)
    await write(22_000)
    expect(await count()).toBe(22_000)
    await endLeases()
    // A transaction that deletes some of them and stays open holds no writer up.
    const open = await begin()
    await write(1000, open)
    await write(1000)
    expect(await count()).toBe(22_000)
    await open.query('COMMIT')
    await write(1000)
    expect(await count()).toBe(20_000)
    await store.enqueue([newJob()])
  })

  test('an old transaction elsewhere keeps neither events from being read nor what was read from being deleted', async () => {
    const { store, begin, reader, newJob, count } = await setUp()
    const follower = await reader()
    const old = await begin()
    await old.query('SELECT pg_current_xact_id()')
    const jobs = [newJob(), newJob(), newJob()]
    for (const each of jobs) await store.enqueue([each])
    expect(await follower.ids()).toEqual(jobs.map(({ id }) => id))
    expect(await follower.ids()).toEqual([])
    await follower.keep()
    expect(await count()).toBe(0)
    await old.query('COMMIT')
    expect(await follower.ids()).toEqual([])
  })
})

/** A store in a schema of its own, with transactions beside it. */
async function setUp() {
  const schema = `sluice_events_${process.pid}_${Math.trunc(process.hrtime()[1])}`
  const pool = new Pool({ connectionString: POSTGRES_URL, max: 6 })
  pool.on('error', () => undefined)
  const open: PoolClient[] = []
  const stores: PostgresStore[] = []
  const openStore = async (): Promise<PostgresStore> => {
    const settings = { clock: systemClock, retention: RETENTION, notify: false, connections: 2 }
    const opened = new PostgresStore({ connection: pool, schema, ...settings })
    stores.push(opened)
    await opened.open()
    return opened
  }
  const store = await openStore()
  onTestFinished(async () => {
    for (const client of open) client.release(true)
    for (const each of stores) await each.close()
    await dropSchema(pool, schema)
    await pool.end()
  })
  return {
    store,
    newJob: () => job('work'),
    begin: async () => {
      const client = await pool.connect()
      open.push(client)
      await client.query('BEGIN')
      return client
    },
    reopen: openStore,
    /** Takes the schema back to before completed jobs were deleted. */
    earlier: async () =>
      pool.query(`DROP TRIGGER job_deleted ON "${schema}".jobs; DROP FUNCTION "${schema}".note_deleted_job();
        UPDATE "${schema}".store SET value = '56' WHERE name = 'version'`),
    endLeases: async () => pool.query(`UPDATE "${schema}".event_readers SET until = 0`),
    /** Writes so many changes as the triggers do. */
    write: async (changes: number, db: Pool | PoolClient = pool) =>
      db.query(
        `INSERT INTO "${schema}".events (item, state, created) SELECT gen_random_uuid(), 1, 0 FROM generate_series(1, $1)`,
        [changes],
      ),
    count: async () => {
      const { rows } = await pool.query<{ n: number }>(`SELECT count(*)::int AS n FROM "${schema}".events`)
      return rows[0]?.n
    },
    /** A reader, which joins as soon as no transaction stands in its way. */
    reader: async () => {
      const id = uuidv7()
      let position = (await store.joinEvents(id, LEASE_US)) ?? ''
      expect(position).not.toBe('')
      return {
        ids: async () => {
          const page = await store.readEvents(position)
          position = page.position
          return page.changes.map((each) => each.id)
        },
        keep: () => store.keepEvents(id, position, LEASE_US),
      }
    },
  }
}
