import type { Statements } from '../../database/statements.ts'
import { usesIn } from '../shared/queue-limits.ts'
import { generationOf, readLimits } from '../shared/limit-changes.ts'
import { readAsync } from '../shared/reading.ts'
import type { Timelines } from '../shared/timelines.ts'
import type { Context } from './context.ts'

/** The current limits, read again if any of them has changed. */
export async function currentLimits(context: Context, db: Statements): Promise<Timelines> {
  return limitsAt(context, db, await readAsync(generationOf(db)))
}

/** The limits with the changes up to a known number. */
export async function limitsAt(context: Context, db: Statements, generation: number): Promise<Timelines> {
  if (context.limits.generation !== generation) context.limits = await readAll(db, generation)
  return context.limits
}

/** Reads all limits. */
export async function readAll(db: Statements, generation: number): Promise<Timelines> {
  const queues = await db.all<[string, string]>(`SELECT name, limits FROM sluice.queues WHERE limits <> '[]'`)
  const own = new Map(queues.map(([queue, limits]) => [queue, usesIn(limits)]))
  return readAsync(readLimits(db, generation, own))
}
