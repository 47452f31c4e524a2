import { isStorable } from '../../base/text.ts'
import { keyOfTenant } from '../../jobs/flow.ts'
import { type JobFilter, type JobMatch, jobMatch } from '../../jobs/job-filter.ts'
import { jobFilterOfTexts } from '../../jobs/job-filter-text.ts'
import type { Call } from '../operation.ts'
import { queuesSeen, seenBy } from './seen.ts'

type AnyCall = Call<unknown, unknown, unknown>

/** The filter of a query. @param without other names of the query. @throws {SluiceError} `option.invalid` */
export function filterInQuery(call: AnyCall, without: readonly string[]): JobFilter {
  const fields = [...call.search()].filter(([name]) => !without.includes(name))
  return jobFilterOfTexts(
    fields.map(([name, value]) => [name === 'q' ? 'text' : name, value] as const),
    'jobs',
  )
}

/**
 * A filter bounded to the jobs that the caller sees; null: no job can match.
 * @throws {SluiceError} `option.invalid`, `duration.invalid`
 */
export function seenMatch(call: AnyCall, filter: JobFilter): JobMatch | null {
  const seen = seenBy(call)
  const { uniqueKey } = filter
  // A tenant has unique keys of its own.
  const match = jobMatch(
    uniqueKey === undefined ? filter : { ...filter, uniqueKey: keyOfTenant(seen.tenant ?? '', uniqueKey) },
    'jobs',
  )
  if (!match) return null
  const { queue, schedule, limitName } = match
  const own = {
    ...(queue !== undefined && { queue: seen.stored(queue) }),
    ...(schedule !== undefined && { schedule: seen.stored(schedule) }),
    ...(limitName !== undefined && {
      limitName: seen.tenant === null ? limitName : call.server.limits.storedName(seen.tenant, limitName),
    }),
  }
  if (queue !== undefined && !seen.owns(own.queue ?? '')) return null
  return Object.values(own).every(isStorable) ? { ...match, ...own, ...queuesSeen(seen) } : null
}
