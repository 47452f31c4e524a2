// The bells between processes: at once after a pause, together when there are many, and off the commit path.
import { Client } from 'pg'
import { expect, test } from 'vitest'
import { PostgresDatabase } from '../../src/database/postgres.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { Notifier } from '../../src/store/postgres/watch.ts'
import { POSTGRES_URL } from './postgres-backend.ts'
import { withPostgres } from './postgres-server.ts'
import { WatchedPool } from './postgres-watched.ts'

withPostgres('bells on PostgreSQL', () => {
  test('the first goes out at once, those that follow it go out as one, and each kind for itself', async () => {
    const pool = new WatchedPool()
    const clock = createManualClock()
    const db = new PostgresDatabase({ source: pool, connections: 2, schema: 'bells' })
    const notifier = new Notifier(db, clock, true)
    const sent = async (): Promise<number> => {
      await db.close()
      return pool.queries.length
    }
    notifier.notify('work')
    expect(db.pending).toBe(true)
    for (let n = 0; n < 10; n++) notifier.notify('work')
    await clock.advance('5ms')
    notifier.notify('ended')
    await clock.advance('1s')
    notifier.notify('work')
    notifier.close()
    // Two of the first eleven, one for the end of a job, one after the pause.
    expect(await sent()).toBe(4)
    await pool.end()
  })

  test('one that leaves behind a commit is the first, and those that follow it go out as one', async () => {
    const listener = new Client({ connectionString: POSTGRES_URL })
    await listener.connect()
    const payloads: string[] = []
    listener.on('notification', ({ payload = '' }) => payloads.push(payload))
    await listener.query('LISTEN sluice')
    const clock = createManualClock()
    const db = new PostgresDatabase({ source: POSTGRES_URL, connections: 1, schema: 'bells_behind', prepares: true })
    const notifier = new Notifier(db, clock, true)
    const told = await db.session(async (statements) => {
      const first = notifier.notifyBehind(statements, 'work')
      await statements.call('SELECT 1')
      return [first, notifier.notifyBehind(statements, 'work')]
    })
    notifier.notify('work', told[0])
    for (let n = 0; n < 10; n++) notifier.notify('work')
    await clock.advance('5ms')
    notifier.close()
    await db.close()
    await listener.query('SELECT 1')
    expect(told).toEqual([true, false])
    expect(payloads.filter((payload) => payload.endsWith('"bells_behind"'))).toHaveLength(2)
    await listener.end()
  })

  test('a connection that another made sends nothing behind its statements', async () => {
    const pool = new WatchedPool()
    const db = new PostgresDatabase({ source: pool, connections: 1, schema: 'bells', prepares: true })
    const notifier = new Notifier(db, createManualClock(), true)
    expect(await db.session((statements) => Promise.resolve(notifier.notifyBehind(statements, 'work')))).toBe(false)
    await db.close()
    await pool.end()
  })

  test('a manual clock stands still until a watcher hears others, and was told that anything may have changed', async () => {
    const pool = new WatchedPool()
    const mayListen = Promise.withResolvers<void>()
    pool.before = (text) => (text.startsWith('LISTEN') ? mayListen.promise : undefined)
    const db = new PostgresDatabase({ source: pool, connections: 2, schema: 'bells' })
    const clock = createManualClock()
    const notifier = new Notifier(db, clock, true)
    clock.attach?.({ pending: () => notifier.pending, running: () => 0 })
    const told: string[] = []
    notifier.watch((change) => told.push(`${change} at ${clock.monotonicUs()}`))
    const advanced = clock.advance('1s')
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
    expect([clock.monotonicUs(), told]).toEqual([0, []])
    mayListen.resolve()
    await advanced
    expect([clock.monotonicUs(), told]).toEqual([1_000_000, ['any at 0']])
    notifier.close()
    await db.close()
    await pool.end()
  })
})
