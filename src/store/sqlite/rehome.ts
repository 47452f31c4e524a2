import { levelOf, stepsOf } from '../../policy/admission/ageing.ts'
import { columns, numbers, numbersOrNull } from '../shared/columns.ts'
import { numbersIn } from '../shared/set-aside.ts'
import type { Rehoming } from '../shared/sql.ts'
import { STATE } from '../shared/state.ts'
import { type Context, queueId, queueName } from './context.ts'
import { reachedBy } from './enqueue.ts'
import { arrive, depart, forgetSieve, laneOf, type LaneSpec } from './lanes.ts'

const JOB = columns({ ...numbers('seq', 'state', 'lane', 'queue', 'priority'), ...numbersOrNull('asked', 'due') })
const JOBS = `SELECT ${JOB.list} FROM jobs WHERE seq IN (SELECT value FROM json_each(?))`
const USES =
  'SELECT b.limit_name, b.key FROM lanes l, json_each(l.buckets) e JOIN buckets b ON b.id = e.value WHERE l.id = ? ORDER BY e.key'
const LANE_SPEC = 'SELECT buckets, fair, share FROM lanes WHERE id = ?'

/** Gives waiting jobs another queue or another priority. Their budgets stay; they keep their `seq`. */
export function rehome(context: Context, seqs: readonly number[], to: Rehoming, nowUs: number): void {
  context.policies.refresh()
  const specs = new Map<number, Omit<LaneSpec, 'queue'>>()
  for (const row of context.db.all(JOBS, JSON.stringify(seqs))) {
    const { seq, state, lane: old, queue: before, priority: level, asked, due } = JOB.read(row)
    let spec = specs.get(old)
    if (!spec) specs.set(old, (spec = specOf(context, old)))
    const queue = to.queue ?? queueName(context, before)
    const priority = to.priority ?? asked ?? level
    const place = queueId(context, queue)
    const lane = to.queue === null ? old : laneOf(context, place, { queue, ...spec }, nowUs)
    const reached = reachedBy(context, { uses: spec.uses, priority })
    const next = to.priority === null ? level : levelOf(priority, stepsOf(level, asked ?? level), reached)
    context.db.run(
      'UPDATE jobs SET queue = ?, lane = ?, priority = ?, asked = ?, booked = NULL WHERE seq = ?',
      place,
      lane,
      next,
      next === priority ? null : priority,
      seq,
    )
    if (state !== STATE.available) continue
    forgetSieve(context, old)
    depart(context, old, seq, nowUs)
    arrive(context, lane, next, seq, nowUs, due !== null)
  }
}

/**
 * The budgets, the fair key and the share of a lane; a negative number is an unlimited lane.
 * @throws SyntaxError so that the store sets a lane with unreadable budgets aside
 */
export function specOf({ db }: Context, lane: number): Omit<LaneSpec, 'queue'> {
  if (lane < 0) return { uses: [] }
  const [buckets = '', fairKey = null, share = 1] = db.get<[string, string | null, number]>(LANE_SPEC, lane) ?? []
  const uses = db.all<[string, string]>(USES, lane).map(([limit, key]) => ({ limit, key }))
  // Without its budgets a job would start beyond them.
  if (numbersIn(buckets)?.length !== uses.length) throw new SyntaxError(`The limits of the lane ${lane} cannot be read`)
  return { uses, share, ...(fairKey !== null && { fairKey }) }
}
