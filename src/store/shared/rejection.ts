import type { Rejected } from '../contract/store.ts'

/** The reason why a job was discarded. */
export type Why = Pick<Rejected, 'reason' | 'limit' | 'key' | 'expectedStartUs'>

const CODES = {
  dropped: 'limit.rejected',
  late: 'limit.rejected',
  expired: 'job.expired',
  unreadable: 'job.unreadable',
} as const

/** The error message of a job with an unreadable row. */
export const UNREADABLE_WORDS = 'The stored job is unreadable. It was set aside, so that it does not block other jobs.'

/** The stored error of a discarded job, as JSON text. */
export function rejectionText(why: Why): string {
  const { reason, limit, key, expectedStartUs } = why
  return JSON.stringify({
    code: CODES[reason],
    message: messageOf(why),
    details: { limit, key, expectedStartUs },
  })
}

/** A phrase for the budget that a discarded job waited for, for the end of a sentence; empty: none. */
export function waitInWords({ limit, key }: Pick<Rejected, 'limit' | 'key'>): string {
  if (limit === '') return ''
  return `; it waited for the budget of limit ${limit}${key === '' ? '' : ` for ${key}`}`
}

function messageOf(why: Why): string {
  const { reason, limit, key } = why
  if (reason === 'unreadable') return UNREADABLE_WORDS
  if (reason === 'expired') return `The job expired before it could start${waitInWords(why)}.`
  const of = key === '' ? `limit ${limit}` : `limit ${limit} for ${key}`
  return reason === 'dropped'
    ? `The budget of ${of} was used up, and the limit drops what it cannot start at once.`
    : `The budget of ${of} lets it start only after its maxWait.`
}
