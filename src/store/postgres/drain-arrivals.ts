import type { Statements } from '../../database/statements.ts'

/** Takes in the arrivals of every queue, as claims do for theirs, so that a report of waits covers all of them. */
export async function drainArrivals(db: Statements): Promise<void> {
  const rows = await db.all<[string]>('SELECT DISTINCT queue FROM (SELECT queue FROM sluice.arrivals LIMIT 10000) s')
  if (rows.length === 0) return
  await db.run(
    'SELECT sluice.take_arrivals($1::text[], 0, NULL, NULL, 0)',
    rows.map(([queue]) => queue),
  )
}
