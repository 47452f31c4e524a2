import type { Statements } from '../../database/statements.ts'
import { columns, numbers, texts, textsOrNull } from '../shared/columns.ts'
import { LOST } from '../shared/lost.ts'
import type { Recovered } from '../contract/store.ts'
import { newsOf, retentionOf } from './advance.ts'
import type { Context } from './context.ts'
import { stateName } from '../shared/state.ts'
import { readAsync } from '../shared/reading.ts'
import { expireWorkers } from '../shared/workers.ts'
import { accessOf } from './shared-sql.ts'

const RECOVERED = columns({
  ...texts('r_id', 'r_task', 'r_queue', 'r_input'),
  ...numbers('r_attempt', 'r_state', 'r_seq'),
  ...textsOrNull('r_flows', 'r_step'),
})

/** Takes back the jobs of dead workers, and those whose lease ran out; a lost run counts as an attempt. */
export async function recover(context: Context, db: Statements): Promise<Recovered[]> {
  await db.run('SELECT sluice.check_clock()')
  const dead = await readAsync(expireWorkers(accessOf(context, db)))
  const found = await db.all(
    `SELECT ${RECOVERED.list} FROM sluice.recover($1::bigint[], $2::bigint[], $3)`,
    dead,
    retentionOf(context),
    LOST,
  )
  const rows = found.map(RECOVERED.read)
  const flows = newsOf(rows[0]?.r_flows ?? null)
  return rows.map((row) => {
    const flow = flows.get(row.r_seq)
    const job = { id: row.r_id, task: row.r_task, queue: row.r_queue, input: row.r_input, attempt: row.r_attempt }
    return { ...job, state: stateName(row.r_state), step: row.r_step, ...(flow && { flow }) }
  })
}

/** Moves due jobs to their lanes: scheduled ones by the wall clock, retries by the store's. Returns their number. */
export async function promote(db: Statements, limit: number): Promise<number> {
  const [moved] = (await db.get<[number]>('SELECT sluice.promote($1::int)', limit)) as [number]
  return moved
}
