import type { Named, NamesFound } from '../contract/queues.ts'
import type { Context } from './context.ts'

const DISTINCT: Readonly<Record<Named, string>> = { limits: 'DISTINCT name', queues: 'name', schedules: 'name' }

/** How many names of one kind stand in a folder, and which of some are there. */
export function names(
  { db }: Context,
  kind: Named,
  folder: string,
  some: readonly string[],
  atMost: number,
): NamesFound {
  // A slash sorts right before 0: the range is read from the index of the names.
  const where = folder === '' ? 'instr(name, ?) = 0' : 'name > ? AND name < ?'
  const values = folder === '' ? ['/'] : [`${folder}/`, `${folder}0`]
  const count = `SELECT count(*) FROM (SELECT ${DISTINCT[kind]} FROM ${kind} WHERE ${where} LIMIT ?)`
  const [total] = db.get<[number]>(count, ...values, atMost) as [number]
  const found = `SELECT DISTINCT name FROM ${kind} WHERE name IN (SELECT value FROM json_each(?))`
  return { total, among: db.all<[string]>(found, JSON.stringify(some)).map(([name]) => name) }
}
