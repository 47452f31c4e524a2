import type { Statements } from '../../database/statements.ts'
import { laneKey } from '../../jobs/lane.ts'
import type { Resolution, Unresolved, UnresolvedJob, UnresolvedKind } from '../contract/unresolved.ts'
import { STATE } from '../shared/state.ts'
import type { Context } from './context.ts'
import { ageingText, levelOfJob } from './job-columns.ts'
import { usesText, weightsText } from './lane-key.ts'
import { currentLimits } from './limit-timelines.ts'
import type { Notifier } from './watch.ts'

type Row = [seq: number, id: string, priority: number, input: string, attempt: number, sinceUs: number]

/** A job with the start of its wait, from which it ages. */
type Found = UnresolvedJob & { readonly sinceUs: number }

/** The kinds of jobs in lanes of unresolved jobs. */
export function kindsOf(lanes: readonly string[] | null): UnresolvedKind[] {
  return (lanes ?? []).map((lane) => {
    const at = lane.indexOf(' ')
    return { queue: lane.slice(1, at), task: lane.slice(at + 1) }
  })
}

/** The jobs of this store that were stored without their limits. */
export function unresolvedIn(context: Context, notifier: Notifier): Unresolved {
  return {
    list: (kind, limit) => context.db.session((db) => list(db, kind, limit)),
    async resolve(resolutions) {
      const done = await context.db.transaction((db) => resolve(context, db, resolutions))
      if (done.length > 0) notifier.notify('work')
      return done
    },
  }
}

async function list(db: Statements, { queue, task }: UnresolvedKind, limit: number): Promise<Found[]> {
  const rows = await db.all<Row>(
    `SELECT seq, id, coalesce(asked, priority), input, attempt, since FROM sluice.jobs
     WHERE lane = sluice.unresolved_lane($1, $2) AND state = ${STATE.available} ORDER BY priority DESC, seq LIMIT $3`,
    queue,
    task,
    limit,
  )
  return rows.map(([seq, id, priority, input, attempt, sinceUs]) => ({
    seq,
    id,
    queue,
    task,
    priority,
    input,
    attempt,
    sinceUs,
  }))
}

async function resolve(context: Context, db: Statements, resolutions: readonly Resolution[]): Promise<number[]> {
  await currentLimits(context, db)
  const rows = resolutions.map((each) => columnsOf(context, each))
  const columns = COLUMNS.map((_, i) => rows.map((row) => row[i] ?? null))
  const [, done] = (await db.get<[unknown, number[]]>(
    `SELECT sluice.check_ageing($${COLUMNS.length + 2}), sluice.resolve(${COLUMNS.map((type, i) => `$${i + 1}::${type}[]`).join(', ')}, $${COLUMNS.length + 1}::bigint)`,
    ...columns,
    context.retention.discardedUs,
    ageingText(context),
  )) as [unknown, number[]]
  return done
}

/** Of seq, lane, level, uses, weights, asked, fair, share and error. */
const COLUMNS = ['bigint', 'text', 'bigint', 'text', 'text', 'int', 'text', 'int', 'text'] as const

function columnsOf(context: Context, resolution: Resolution): readonly (string | number | null)[] {
  const { job } = resolution
  if ('error' in resolution)
    return [job.seq, null, null, null, null, null, null, null, JSON.stringify(resolution.error)]
  const { uses, fairKey, share = 1 } = resolution.as
  const level = levelOfJob(context, { uses, priority: job.priority }, (job as Found).sinceUs)
  return [
    job.seq,
    laneKey(job.queue, uses, fairKey ?? null),
    level,
    usesText(resolution.as),
    weightsText(uses),
    level === job.priority ? null : job.priority,
    fairKey ?? null,
    share,
    null,
  ]
}
