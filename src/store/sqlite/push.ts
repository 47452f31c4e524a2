import type { NewJob } from '../../jobs/job.ts'
import type { PushAnswer, Refused } from '../contract/remote-jobs.ts'
import type { QueueDepth } from '../contract/queues.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import { type Context, unlimitedLaneOf, queueId } from './context.ts'
import { defineLimits } from '../shared/limits.ts'
import { readNow } from '../shared/reading.ts'
import { accessOf } from './shared-sql.ts'
import { enqueue } from './enqueue.ts'
import { boundsOf } from './queues.ts'
import { STATE } from '../shared/state.ts'
import { MAY_COME_BACK } from './views.ts'

/** The error for a push with a job that cannot be stored. It rolls the whole push back. */
export class RefusedPush extends Error {
  readonly at: number
  readonly why: Refused

  constructor(at: number, why: Refused) {
    super('the push was refused')
    this.at = at
    this.why = why
  }
}

/** Stores jobs and defines their limits, all or nothing. */
export function push(context: Context, jobs: readonly NewJob[], limits: readonly LimitDefinition[]): PushAnswer {
  const depths = new Map<string, QueueDepth>()
  for (const [at, job] of jobs.entries()) {
    if (job.terms?.givenId && isTaken(context, job.id, jobs, at))
      throw new RefusedPush(at, { kind: 'taken', id: job.id })
    const depth = depths.get(job.queue) ?? depthOf(context, job.queue)
    if (!depth) continue
    if (depth.depth >= depth.bounds.maxDepth)
      throw new RefusedPush(at, {
        kind: 'full',
        queue: job.queue,
        depth: depth.depth,
        bound: depth.bounds.maxDepth,
      })
    depths.set(job.queue, { ...depth, depth: depth.depth + 1 })
  }
  if (limits.length > 0) readNow(defineLimits(accessOf(context), limits))
  const { nowUs, wallUs } = context.clock.read()
  const answers = enqueue(context, jobs, { nowUs, wallUs })
  for (const [at, answer] of answers.entries())
    if (answer.kind === 'conflict') throw new RefusedPush(at, { kind: 'conflict', id: answer.id })
  return { kind: 'stored', answers, depths: [...depths.values()], at: { nowUs, wallUs } }
}

function isTaken(context: Context, id: string, jobs: readonly NewJob[], at: number): boolean {
  if (jobs.slice(0, at).some((job) => job.id === id)) return true
  return context.db.get('SELECT 1 FROM jobs WHERE id = ?', id) !== undefined
}

/** The fill level of a bounded queue; null: it has no bound. */
function depthOf(context: Context, queue: string): QueueDepth | null {
  const bounds = boundsOf(context, queue)
  if (!bounds) return null
  const id = queueId(context, queue)
  // The bound of the queue also bounds this count.
  const [waiting, parked] = context.db.get<[number, number]>(
    `SELECT (SELECT count(*) FROM jobs WHERE state = ${STATE.available} AND lane IN (SELECT id FROM lanes WHERE queue = ?1 UNION ALL SELECT ?2)),
     (SELECT count(*) FROM jobs WHERE (${MAY_COME_BACK}) AND state IN (${STATE.scheduled}, ${STATE.retryable}) AND lane IN (SELECT id FROM lanes WHERE queue = ?1 UNION ALL SELECT ?2))`,
    id,
    unlimitedLaneOf(id),
  ) as [number, number]
  return { queue, depth: waiting + parked, bounds }
}
