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
})
