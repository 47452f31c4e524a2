import type { Rejected } from '../contract/store.ts'

/** Why a job was given up. */
export type Why = Pick<Rejected, 'reason' | 'limit' | 'key' | 'expectedStartUs'>

const CODES = {
  dropped: 'limit.rejected',
  late: 'limit.rejected',
  expired: 'job.expired',
  unreadable: 'job.unreadable',
} as const

/** What is said of a job whose row cannot be read. */
export const UNREADABLE_WORDS =
  'What the store keeps of this job cannot be read, so it was set aside: it would have kept others from starting.'

/** The error that a job is stored with that was given up, as JSON text. */
export function rejectionText(why: Why): string {
  const { reason, limit, key, expectedStartUs } = why
  return JSON.stringify({
    code: CODES[reason],
    message: messageOf(why),
    details: { limit, key, expectedStartUs },
  })
}

/** Which budget a job waited for when it was given up, to go on with a sentence; empty: none. */
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
