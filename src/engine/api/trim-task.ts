import type { Clock } from '../../base/clock.ts'
import type { JobMatch } from '../../jobs/job-filter.ts'
import type { Store } from '../../store/contract/store.ts'
import { allSpans, Reach } from './find-jobs.ts'

const PAGE = 500

/**
 * Deletes ended jobs of a task beyond the newest so many; not those of flows. It looks as far as a search does: older
 * jobs go by time.
 */
export async function trimTask(store: Store, clock: Clock, task: string, count: number): Promise<void> {
  const match: JobMatch = { task, states: ['completed', 'cancelled', 'discarded'] }
  let left = count
  for await (const span of allSpans(store, undefined, new Reach(clock))) {
    const found = left > 0 ? await store.countJobs(match, span) : Infinity
    if (found <= left) {
      left -= found
      continue
    }
    for (let before = span.before; ;) {
      const page = await store.list({ ...match, ...span, ...(before !== undefined && { before }), limit: PAGE })
      const ids = page.slice(left).flatMap(({ id, flow }) => (flow ? [] : [id]))
      left = Math.max(0, left - page.length)
      if (ids.length > 0) await store.changeJobs({ kind: 'delete' }, { ids }, {}, ids.length)
      const last = page.at(-1)
      if (!last || page.length < PAGE) break
      before = last.seq
    }
  }
}
