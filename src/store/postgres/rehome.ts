import type { Statements } from '../../database/statements.ts'
import { laneKey } from '../../jobs/lane.ts'
import { levelOf, stepsOf } from '../../policy/admission/ageing.ts'
import { columns, column, numbers, texts, textsOrNull } from '../shared/columns.ts'
import { areUses, bucketsIn } from '../shared/set-aside.ts'
import type { Rehoming } from '../shared/sql.ts'
import { STATE } from '../shared/state.ts'
import { announce, LOOK } from './announce.ts'
import type { Context } from './context.ts'
import { ageingText, reachedBy } from './job-columns.ts'
import { currentLimits } from './limit-timelines.ts'

const JOB = columns({
  ...numbers('seq'),
  level: column<number>('priority'),
  ...texts('task', 'queue', 'lane'),
  ...textsOrNull('uses', 'fair'),
  asked: column<number | null>(),
})
/** The share of a lane: that of its last arrival, which no claim may have taken in. */
const SHARES = `SELECT DISTINCT ON (s.lane) s.lane, s.share FROM (
    SELECT l.key AS lane, l.share, 0 AS id FROM sluice.lanes l WHERE l.key = ANY ($1::text[])
    UNION ALL SELECT a.lane, a.share, a.id FROM sluice.arrivals a
    WHERE a.queue = ANY ($2::text[]) AND a.lane = ANY ($1::text[]) AND a.share IS NOT NULL
  ) s ORDER BY s.lane, s.id DESC`
const JOBS = `SELECT ${JOB.list} FROM sluice.jobs j WHERE seq = ANY ($1::bigint[])`
const REHOME = `UPDATE sluice.jobs j SET queue = g.queue, lane = g.lane, priority = g.level, asked = g.asked, booked = NULL,
    bounded = CASE WHEN EXISTS (SELECT 1 FROM sluice.queues q WHERE q.name = g.queue AND q.bounds IS NOT NULL) THEN true END
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::int[]) g(seq, queue, lane, level, asked)
  WHERE j.seq = g.seq`
/** A new lane gets the share of the old one, also for later jobs; claims look at its head again. */
const ARRIVE = `INSERT INTO sluice.arrivals (queue, lane, uses, fair, share, look)
  SELECT j.queue, j.lane, min(j.uses), min(j.fair), max(g.share), bool_or(${LOOK})
  FROM unnest($1::bigint[], $2::int[]) g(seq, share) JOIN sluice.jobs j ON j.seq = g.seq
  WHERE (j.state = ${STATE.available} OR g.share IS NOT NULL) AND j.uses IS NOT NULL GROUP BY j.queue, j.lane`

/**
 * Gives waiting jobs another queue or another priority. Their budgets stay; they keep their `seq`.
 * @throws SyntaxError so that the store sets a job with unreadable limits aside
 */
export async function rehome(context: Context, db: Statements, seqs: readonly number[], to: Rehoming): Promise<void> {
  await currentLimits(context, db)
  await db.all('SELECT sluice.check_ageing($1)', ageingText(context))
  const waiting = await db.all<[number]>(
    `SELECT seq FROM sluice.jobs WHERE seq = ANY ($1::bigint[]) AND state = ${STATE.available}`,
    seqs,
  )
  await announce(
    db,
    waiting.map(([seq]) => seq),
  )
  const jobs = (await db.all(JOBS, seqs)).map((row) => JOB.read(row))
  const lanes = jobs.filter(({ uses }) => uses !== null)
  const shares = new Map(
    await db.all<[lane: string, share: number]>(
      SHARES,
      lanes.map(({ lane }) => lane),
      lanes.map(({ queue }) => queue),
    ),
  )
  const rows = jobs.map(({ seq, task, queue: before, lane, uses, fair, level, asked }) => {
    const queue = to.queue ?? before
    const priority = to.priority ?? asked ?? level
    // The store sets the job aside, or gives it the limits of its lane. Without any it would start beyond its budgets.
    if (uses !== null && !areUses(uses)) throw new SyntaxError(`The limits of the job ${seq} cannot be read`)
    const needs = uses === null ? [] : bucketsIn(uses)
    const next =
      to.priority === null
        ? level
        : levelOf(priority, stepsOf(level, asked ?? level), reachedBy(context, { uses: needs, priority }))
    // Jobs without their limits wait in a lane of their own kind (unresolved.sql).
    const place = lane.startsWith('?') ? `?${queue} ${task}` : laneKey(queue, needs, fair)
    return [seq, queue, place, next, next === priority ? null : priority] as const
  })
  await db.run(
    REHOME,
    rows.map(([seq]) => seq),
    rows.map(([, queue]) => queue),
    rows.map(([, , lane]) => lane),
    rows.map(([, , , level]) => level),
    rows.map(([, , , , asked]) => asked),
  )
  await db.run(
    ARRIVE,
    jobs.map(({ seq }) => seq),
    jobs.map(({ lane }) => shares.get(lane) ?? null),
  )
}
