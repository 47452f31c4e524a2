import type { Statements } from '../../database/postgres.ts'
import { LOST } from '../shared/lost.ts'
import type { Recovered } from '../contract/store.ts'
import { newsOf, retentionOf } from './advance.ts'
import type { Context } from './context.ts'
import { stateName } from '../shared/state.ts'
import { expireWorkers } from './workers.ts'

type Row = [
  id: string,
  task: string,
  queue: string,
  input: string,
  attempt: number,
  state: number,
  seq: number,
  flows: string | null,
]

/** Takes back the jobs of dead workers, and those whose lease ran out; a lost run counts as an attempt. */
export async function recover(context: Context, db: Statements, bootId: string): Promise<Recovered[]> {
  await db.run('SELECT sluice.check_clock()')
  const dead = await expireWorkers(context, db, bootId)
  const rows = await db.all<Row>(
    'SELECT r_id, r_task, r_queue, r_input, r_attempt, r_state, r_seq, r_flows FROM sluice.recover($1::bigint[], $2::bigint[], $3)',
    dead,
    retentionOf(context),
    LOST,
  )
  const flows = newsOf(rows[0]?.[7] ?? null)
  return rows.map(([id, task, queue, input, attempt, state, seq]) => {
    const flow = flows.get(seq)
    return { id, task, queue, input, attempt, state: stateName(state), ...(flow && { flow }) }
  })
}
