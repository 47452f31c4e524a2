import type { JobRecord } from '../../jobs/job.ts'
import type { Store } from '../../store/contract/store.ts'

/** The most jobs that one workflow's answer shows; it counts all of them. */
const SHOWN_AT_MOST = 1_000
/** The jobs read before the size of any is known. */
const FIRST_PAGE = 32
const PAGE_AT_MOST = 500
/** The bytes that one further read aims at. */
const PAGE_BYTES = 4_194_304

/** A job of a workflow's answer. */
export interface WorkflowJob extends Omit<JobRecord, 'input' | 'extra'> {
  /** The answer has no room for its result. */
  readonly resultOmitted: boolean
}

/**
 * The jobs of a workflow by their places, with as many of their results and errors as fit. The store hands them out
 * page by page, since each may have a megabyte.
 * @param bytes the room for results and messages
 */
export async function workflowJobs(store: Store, id: string, bytes: number): Promise<WorkflowJob[]> {
  const jobs: WorkflowJob[] = []
  let left = bytes
  let limit = FIRST_PAGE
  let afterNode = -1
  for (;;) {
    const page = await store.list({ flow: id, limit, afterNode })
    for (const { input: _input, extra: _extra, result, error, ...job } of page) {
      const size = Buffer.byteLength(result ?? '') + Buffer.byteLength(error?.message ?? '')
      const fits = size <= left
      if (fits) left -= size
      const resultOmitted = !fits && result !== null
      jobs.push({ ...job, result: fits ? result : null, error: error && (fits ? error : cut(error)), resultOmitted })
    }
    const more = SHOWN_AT_MOST - jobs.length
    if (page.length < limit || more <= 0) return jobs
    afterNode = page.at(-1)?.flow?.node ?? Infinity
    const each = page.reduce((sum, { input, result }) => sum + input.length + (result?.length ?? 0), 0) / page.length
    limit = Math.min(more, PAGE_AT_MOST, Math.max(1, Math.floor(PAGE_BYTES / (each + 1))))
  }
}

const MESSAGE_KEPT = 200

function cut(error: NonNullable<JobRecord['error']>): NonNullable<JobRecord['error']> {
  return { ...error, message: error.message.slice(0, MESSAGE_KEPT) }
}
