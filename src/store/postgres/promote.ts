import type { Statements } from '../../database/postgres.ts'

/** Moves jobs whose time has come to their lanes: scheduled ones by the wall clock, retries by the store's. Answers how many. */
export async function promote(db: Statements, limit: number): Promise<number> {
  const [moved] = (await db.get<[number]>('SELECT sluice.promote($1::int)', limit)) as [number]
  return moved
}
