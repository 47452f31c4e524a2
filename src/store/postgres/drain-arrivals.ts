import type { Statements } from '../../database/postgres.ts'

/** Takes in what has arrived for any queue, as claims do for theirs: what is told of waits is then told of everything. */
export async function takeAll(db: Statements): Promise<void> {
  const rows = await db.all<[string]>('SELECT DISTINCT queue FROM (SELECT queue FROM sluice.arrivals LIMIT 10000) s')
  if (rows.length === 0) return
  await db.run(
    'SELECT sluice.take_arrivals($1::text[], 0, NULL, NULL, 0)',
    rows.map(([queue]) => queue),
  )
}
