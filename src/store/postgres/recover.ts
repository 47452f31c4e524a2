import type { Statements } from '../../database/postgres.ts'
import { column, columns } from '../shared/columns.ts'
import { LOST } from '../shared/lost.ts'
import type { Recovered } from '../contract/store.ts'
import { newsOf, retentionOf } from './advance.ts'
import type { Context } from './context.ts'
import { stateName } from '../shared/state.ts'
import { readAsync } from '../shared/reading.ts'
import { expireWorkers } from '../shared/workers.ts'
import { accessOf } from './shared-sql.ts'

const RECOVERED = columns({
  id: column<string>('r_id'),
  task: column<string>('r_task'),
  queue: column<string>('r_queue'),
  input: column<string>('r_input'),
  attempt: column<number>('r_attempt'),
  state: column<number>('r_state'),
  seq: column<number>('r_seq'),
  flows: column<string | null>('r_flows'),
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
  const flows = newsOf(rows[0]?.flows ?? null)
  return rows.map(({ id, task, queue, input, attempt, state, seq }) => {
    const flow = flows.get(seq)
    return { id, task, queue, input, attempt, state: stateName(state), ...(flow && { flow }) }
  })
}

/** Moves due jobs to their lanes: scheduled ones by the wall clock, retries by the store's. Returns their number. */
export async function promote(db: Statements, limit: number): Promise<number> {
  const [moved] = (await db.get<[number]>('SELECT sluice.promote($1::int)', limit)) as [number]
  return moved
}
