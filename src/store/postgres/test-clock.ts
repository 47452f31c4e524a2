import type { Clock } from '../../base/clock.ts'
import type { PostgresDatabase } from '../../database/postgres.ts'
import { TEST_CLOCK } from './sql/embedded.ts'
import { TestClock, wallOf } from './store-clock.ts'

/** Makes a schema use a test's clock. The store keeps its offset per boot: a step of the wall clock moves no start. */
export async function useTestClock(db: PostgresDatabase, clock: Clock): Promise<TestClock> {
  return db.transaction(async (statements) => {
    await statements.run(`SELECT pg_advisory_xact_lock(hashtext('sluice.migrate'), 0)`)
    // An upgrade restores the server's clock. An existing test clock stays: replacing it would make every connection
    // plan again.
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
