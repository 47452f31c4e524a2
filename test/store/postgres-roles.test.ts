// A role that owns the tables, one that may write them, and one that may only read them.
import { Pool } from 'pg'
import { uuidv7 } from 'uuidv7'
import { expect, onTestFinished, test } from 'vitest'
import { type Clock, systemClock } from '../../src/base/clock.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { PostgresStore } from '../../src/store/postgres/postgres-store.ts'
import { RETENTION } from '../conformance/store/backend.ts'
import { dropSchema } from '../drop-schema.ts'
import { job } from './plain-job.ts'
import { POSTGRES_URL } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'

const LEASE_US = 30_000_000
const DENIED = { code: '42501' }

withPostgres('roles on PostgreSQL', () => {
  test.each(['SET ROLE', 'SET SESSION AUTHORIZATION'])(
    'a role that may write the tables hears the events of the fleet (%s)',
    async (become) => {
      const { writer, storeAs } = await setUp()
      const store = storeAs(`${become} ${writer}`)
      const reader = uuidv7()
      const position = (await store.joinEvents(reader, LEASE_US)) ?? ''
      const stored = job('work')
      await store.enqueue([stored])
      const { changes } = await store.readEvents(position)
      expect(changes.map(({ id }) => id)).toEqual([stored.id])
      await store.leaveEvents(reader)
      await store.enqueue([job('work')])
      expect((await store.readEvents(position)).changes).toEqual([])
    },
  )

  test.each(['SET ROLE', 'SET SESSION AUTHORIZATION'])(
    'a role that may only read neither starts nor stops the events (%s)',
    async (become) => {
      const { owner, reader, schema, storeAs, as } = await setUp()
      const isOn = async () =>
        (await owner.query<{ on: boolean }>(`SELECT "${schema}".writes_events() AS on`)).rows[0]?.on
      await expect(as(`${become} ${reader}`, `SELECT "${schema}".write_events(true)`)).rejects.toMatchObject(DENIED)
      await expect(storeAs(`${become} ${reader}`).joinEvents(uuidv7(), LEASE_US)).rejects.toThrow(/events of the fleet/)
      expect(await isOn()).toBe(false)
      await owner.query(`SELECT "${schema}".write_events(true)`)
      await expect(as(`${become} ${reader}`, `SELECT "${schema}".write_events(false)`)).rejects.toMatchObject(DENIED)
      expect(await isOn()).toBe(true)
    },
  )

  test.each([
    ['whose role may only read', (reader: string) => `SET ROLE ${reader}`],
    ['whose transactions only read', () => 'SET default_transaction_read_only = on'],
  ])('a connection %s reports waits while arrivals wait, and while an override is over', async (_, become) => {
    const { owner, reader, schema, storeAs } = await setUp()
    const store = storeAs()
    await store.define([{ name: 'crm', policy: normalisePolicy({ rate: 1, per: '1h' }, 'crm'), version: 0 }])
    const jobs = [job('work', ['crm']), job('work', ['crm'])]
    await store.enqueue(jobs)
    const pause = { limit: 'crm', key: null, kind: 'pause', change: {}, by: null, reason: null } as const
    await store.override({ ...pause, untilUs: store.nowUs() + 1 })
    const sees = storeAs(become(reader))
    const waits = async () => Number((await owner.query(`SELECT 1 FROM "${schema}".arrivals`)).rowCount)
    expect(await waits()).toBeGreaterThan(0)
    expect((await sees.limits()).map(({ name }) => name)).toEqual(['crm'])
    expect(await sees.explain(jobs[1]?.id ?? '')).toMatchObject({ job: { id: jobs[1]?.id } })
    expect(await waits()).toBeGreaterThan(0)
  })

  test('a change of a store that was opened to look is refused at once where transactions only read', async () => {
    const { storeAs } = await setUp()
    const timers: number[] = []
    const setTimer: Clock['setTimer'] = (run, ms) => {
      timers.push(ms)
      return systemClock.setTimer(run, ms)
    }
    const store = storeAs('SET default_transaction_read_only = on', { ...systemClock, setTimer })
    await store.openExisting()
    await expect(store.pauseQueue('q', true)).rejects.toMatchObject({ code: 'store.io', cause: { code: '25006' } })
    expect(timers).toEqual([])
  })

  test('a role that may only read attaches the triggers of the events to no table of its own', async () => {
    const { reader, schema, as } = await setUp()
    const attach = `CREATE TEMP TABLE mine (LIKE "${schema}".flows);
      CREATE TRIGGER forge AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION "${schema}".note_flow()`
    await expect(as(`SET ROLE ${reader}`, attach)).rejects.toMatchObject(DENIED)
  })
})

/** A store of the owner, and connections that become another role. */
async function setUp() {
  const id = `${process.pid}_${Math.trunc(process.hrtime()[1])}`
  const schema = `sluice_roles_${id}`
  const [writer, reader] = [`sluice_app_${id}`, `sluice_reader_${id}`]
  const pools: Pool[] = []
  const stores: PostgresStore[] = []
  const poolAs = (become?: string): Pool => {
    const pool = new Pool({
      connectionString: POSTGRES_URL,
      max: 2,
      ...(become !== undefined && { verify: (client, done) => client.query(become, done) }),
    })
    pool.on('error', () => undefined)
    pools.push(pool)
    return pool
  }
  const storeAs = (become?: string, clock: Clock = systemClock): PostgresStore => {
    const store = new PostgresStore({
      connection: poolAs(become),
      schema,
      clock,
      retention: RETENTION,
      notify: false,
      connections: 2,
    })
    stores.push(store)
    return store
  }
  const owner = poolAs()
  onTestFinished(async () => {
    for (const store of stores) await store.close()
    await dropSchema(owner, schema)
    for (const role of [writer, reader]) await owner.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
    for (const pool of pools) await pool.end()
  })
  await owner.query(`CREATE ROLE ${writer}; CREATE ROLE ${reader}`)
  await storeAs().open()
  await owner.query(`GRANT USAGE ON SCHEMA "${schema}" TO ${writer}, ${reader};
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "${schema}" TO ${writer};
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA "${schema}" TO ${writer};
    GRANT SELECT ON ALL TABLES IN SCHEMA "${schema}" TO ${reader}`)
  return { schema, writer, reader, owner, storeAs, as: (become: string, sql: string) => poolAs(become).query(sql) }
}
