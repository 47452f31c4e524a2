import type { Clock } from '../../base/clock.ts'
import type { PostgresDatabase } from '../../database/postgres.ts'
import { TEST_CLOCK } from './sql/embedded.ts'
import { TestClock, wallOf } from './store-clock.ts'

/** Has a schema go by a test's clock. Its offset is kept in the store, per boot: a step of the wall moves no start. */
export async function useTestClock(db: PostgresDatabase, clock: Clock): Promise<TestClock> {
  return db.transaction(async (statements) => {
    await statements.run(`SELECT pg_advisory_xact_lock(hashtext('sluice.migrate'), 0)`)
    // An upgrade puts the server's clock back. What is there already is left: to replace it would have every connection make its plans anew.
    const given = await statements.get<[boolean]>(
      `SELECT prosrc LIKE '%sluice_clock%' FROM pg_proc WHERE oid = 'sluice.now_us()'::regprocedure`,
    )
    if (!given?.[0]) await statements.script(TEST_CLOCK)
    const [text] = (await statements.get<[string]>(`SELECT value FROM sluice.store WHERE name = 'boot'`)) ?? ['["",0]']
    const [boot, offset] = JSON.parse(text) as [string, number]
    if (boot === clock.bootId) return new TestClock(clock, offset)
    const offsetUs = wallOf(clock) - clock.monotonicUs()
    await statements.run(
      `INSERT INTO sluice.store (name, value) VALUES ('boot', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
      JSON.stringify([clock.bootId, offsetUs]),
    )
    return new TestClock(clock, offsetUs)
  })
}
