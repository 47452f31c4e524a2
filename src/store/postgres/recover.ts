import type { Statements } from '../../database/postgres.ts'
import type { Recovered } from '../store.ts'
import type { Context } from './context.ts'
import { stateName } from './state.ts'
import { buryDead } from './workers.ts'

type Row = [id: string, task: string, queue: string, input: string, attempt: number, state: number]

/** The error of a job that lost its last attempt with its worker. */
export const LOST: string = JSON.stringify({
  code: 'lease.lost',
  message: 'The worker died or stopped extending its lease, and this was the last attempt.',
})

/** Takes back the jobs of dead workers, and those whose lease ran out; a lost run counts as an attempt. */
export async function recover(context: Context, db: Statements, bootId: string): Promise<Recovered[]> {
  await db.run('SELECT sluice.check_clock()')
  const dead = await buryDead(context, db, bootId)
  const { cancelledUs, discardedUs } = context.retention
  const rows = await db.all<Row>(
    'SELECT r_id, r_task, r_queue, r_input, r_attempt, r_state FROM sluice.recover($1::bigint[], $2::bigint, $3::bigint, $4)',
    dead,
    cancelledUs,
    discardedUs,
    LOST,
  )
  return rows.map(([id, task, queue, input, attempt, state]) => ({
    id,
    task,
    queue,
    input,
    attempt,
    state: stateName(state),
  }))
}
