import { LANE, STATE } from '../shared/state.ts'
import { type Context, queueName } from './context.ts'
import { arrive, depart, laneOf } from './lanes.ts'
import { specOf } from './rehome.ts'
import { FIRST_JOB, MAY_COME_BACK, viewsOf } from './views.ts'

const AT_ONCE = 1000
const LANES = `SELECT id, queue, state, base, EXISTS (SELECT 1 FROM json_each(lanes.buckets) e CROSS JOIN buckets b ON b.id = e.value WHERE b.limit_name = ?2)
  FROM lanes WHERE id > ?1 ORDER BY id LIMIT ${AT_ONCE}`
const RUNNING = `SELECT seq, lane FROM jobs WHERE state = ${STATE.active} AND due IS NOT NULL`
const PARKED = `SELECT seq FROM jobs WHERE lane = ? AND (${MAY_COME_BACK})`

/**
 * Moves the jobs of a limit whose scope has changed. Under scope `worker` they wait in a lane of which each worker has a
 * view, otherwise in one that all workers share.
 */
export function spreadLanes(context: Context, limit: string, nowUs: number): void {
  const { db } = context
  const running = Map.groupBy(db.all<[number, number]>(RUNNING), ([, lane]) => lane)
  for (let after = 0; ;) {
    const lanes = db.all<[number, number, number, number | null, number]>(LANES, after, limit)
    for (const [lane, queue, state, base, needsLimit] of lanes)
      if (base === null && needsLimit === 1)
        move(context, { lane, queue, isSpread: state === LANE.spread }, running.get(lane) ?? [], nowUs)
    const last = lanes.at(-1)
    if (!last || lanes.length < AT_ONCE) return
    after = last[0]
  }
}

/** Moves the jobs of a lane to where jobs of its limits now wait. An empty lane is forgotten in time. */
function move(
  context: Context,
  { lane, queue, isSpread }: { readonly lane: number; readonly queue: number; readonly isSpread: boolean },
  running: readonly (readonly [seq: number, lane: number])[],
  nowUs: number,
): void {
  const { db, policies } = context
  const spec = specOf(context, lane)
  if (isSpread === spec.uses.some((use) => policies.current.policy(use.limit, use.key)?.scope === 'worker')) return
  const first = db.get<[number, number]>(FIRST_JOB, lane)
  const others = [...running, ...db.all<[number]>(PARKED, lane)]
  if (!first && others.length === 0) return
  const target = laneOf(context, queue, { queue: queueName(context, queue), ...spec }, nowUs)
  for (const [seq] of others) db.run('UPDATE jobs SET lane = ? WHERE seq = ?', target, seq)
  if (!first) return
  db.run(`UPDATE jobs SET lane = ? WHERE lane = ? AND state = ${STATE.available}`, target, lane)
  for (const left of isSpread ? viewsOf(context, lane) : [lane]) {
    const [head] = db.get<[number]>('SELECT head FROM lanes WHERE id = ?', left) as [number]
    depart(context, left, head, nowUs, lane)
  }
  const [priority, seq] = db.get<[number, number]>(FIRST_JOB, target) as [number, number]
  arrive(context, target, priority, seq, nowUs, true)
}
