// The bells between processes: at once after a pause, together when there are many, and off the commit path.
import { expect, test } from 'vitest'
import { PostgresDatabase } from '../../src/database/postgres.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { Notifier } from '../../src/store/postgres/watch.ts'
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

  test('one that leaves behind a commit needs no connection of its own, and those that follow it go out as one', async () => {
    const pool = new WatchedPool()
    const clock = createManualClock()
    const db = new PostgresDatabase({ source: pool, connections: 2, schema: 'bells', prepares: true })
    const notifier = new Notifier(db, clock, true)
    const heard: boolean[] = []
    notifier.watch((_, isOwn) => heard.push(isOwn))
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
    expect(told).toEqual([true, false])
    expect(heard.filter(Boolean)).toHaveLength(11)
    expect(pool.queries.filter((text) => text.includes('pg_notify'))).toHaveLength(2)
    await pool.end()
  })

  test('a caller that brings its connection is not given a statement behind its own', () => {
    const db = new PostgresDatabase({
      source: 'postgres://nobody@127.0.0.1:1/none',
      connections: 1,
      schema: 'bells',
      prepares: true,
    })
    const notifier = new Notifier(db, createManualClock(), true)
    const client = { query: () => Promise.reject(new Error('nothing is asked')) }
    expect(notifier.notifyBehind(db.within(client), 'work')).toBe(false)
  })
})
