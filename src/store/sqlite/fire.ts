import type { NewJob } from '../../jobs/job.ts'
import type { ScheduleNews } from '../../jobs/schedule.ts'
import { fire as fireDue, nextFireUs as nextOf } from '../shared/fire.ts'
import { readNow } from '../shared/reading.ts'
import { LIVE_STATES } from '../shared/state.ts'
import type { Context } from './context.ts'
import { enqueue } from './enqueue.ts'
import { accessOf } from './shared-sql.ts'
import type { Instant } from '../../jobs/series.ts'

/** The next due times on both clocks, and a schedule whose missed occurrences may continue. */
type Next = [storeUs: number | null, wallUs: number | null, released: string | null]

/** Excludes schedules whose time zone this process does not know, as JSON: other processes may fire them. */
const KNOWN = 'AND name NOT IN (SELECT value FROM json_each(?1))'
const NEXT = nextQuery('')
const NEXT_OF_KNOWN = nextQuery(KNOWN)

/** The result of firing, and the next due time on the store's clock. */
export interface Fired {
  readonly news: readonly ScheduleNews[]
  readonly nextUs: number
}

/** Fires due schedules. The claim's transaction alone holds the file's write lock. */
export function fire(context: Context, instant: Instant, limit: number): Fired {
  const nextUs = nextFireUs(context, instant)
  if (nextUs > instant.nowUs) return { news: [], nextUs }
  const access = {
    ...accessOf(context),
    instant,
    newId: context.newId,
    enqueue: (jobs: readonly NewJob[]) => enqueue(context, jobs, instant),
  }
  const news = readNow(fireDue(access, limit))
  return { news, nextUs: nextFireUs(context, instant) }
}

/** The next due time of all schedules on the store's clock. */
export function nextFireUs(context: Context, instant: Instant): number {
  return nextOf(...readNext(context), instant)
}

function readNext({ db, unreadable }: Context): Next {
  if (unreadable.size === 0) return db.get<Next>(NEXT) as Next
  return db.get<Next>(NEXT_OF_KNOWN, JSON.stringify([...unreadable])) as Next
}

function nextQuery(which: string): string {
  const next = `SELECT next_at FROM schedules WHERE catch_up_to IS NULL AND next_at IS NOT NULL ${which} AND wall =`
  return `SELECT (${next} 0 ORDER BY next_at LIMIT 1), (${next} 1 ORDER BY next_at LIMIT 1), (SELECT s.name FROM schedules s
    WHERE s.catch_up_to IS NOT NULL ${which} AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = s.last_job AND j.state IN (${LIVE_STATES})) LIMIT 1)`
}
