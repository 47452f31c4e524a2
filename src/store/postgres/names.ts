import type { Statements } from '../../database/postgres.ts'
import type { Named, NamesFound } from '../contract/queues.ts'
import type { Context } from './context.ts'
import { recordQueues } from './queues.ts'

const DISTINCT: Readonly<Record<Named, string>> = { limits: 'DISTINCT name', queues: 'name', schedules: 'name' }

/** How many names of one kind stand in a folder, and which of some are there. */
export async function names(
  context: Context,
  db: Statements,
  kind: Named,
  folder: string,
  some: readonly string[],
  atMost: number,
): Promise<NamesFound> {
  if (kind === 'queues') await recordQueues(context, db)
  // Names are compared byte by byte, and a slash stands right before 0: the range is read from their index.
  const where = folder === '' ? `strpos(name, $2) = 0` : `name > $2 AND name < $4`
  const values = folder === '' ? ['/'] : [`${folder}/`]
  const rows = await db.all<[string | null, number]>(
    `SELECT NULL, count(*) FROM (SELECT ${DISTINCT[kind]} FROM sluice.${kind} WHERE ${where} LIMIT $3) found
     UNION ALL SELECT DISTINCT name, 0::bigint FROM sluice.${kind} WHERE name = ANY ($1::text[])`,
    some,
    ...values,
    atMost,
    ...(folder === '' ? [] : [`${folder}0`]),
  )
  return {
    total: rows.find(([name]) => name === null)?.[1] ?? 0,
    among: rows.flatMap(([name]) => (name === null ? [] : [name])),
  }
}
