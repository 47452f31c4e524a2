import type { UniqueRule } from '../../jobs/unique-key.ts'
import type { Context } from './context.ts'
import { LIVE_STATES, STATE } from '../shared/state.ts'
import { shownIn } from '../shared/get.ts'

/** The job that holds a unique key. */
export interface Holder {
  readonly seq: number
  readonly id: string
  readonly state: number
  readonly lane: number
  readonly due: number | null
  /** Its level, by which lanes order it. */
  readonly level: number
  /** The given priority. */
  readonly priority: number
  /** It has not started: a duplicate may update or replace it. */
  readonly changeable: boolean
}

/** The newest job that holds the key, by the states and the time of the rule; null: the key is free. */
export function findHolder(context: Context, rule: UniqueRule, nowUs: number): Holder | null {
  const where = rule.states
    ? shownIn(rule.states, '?2')
    : `state IN (${rule.withinUs === null ? LIVE_STATES : `${LIVE_STATES}, ${STATE.completed}`})`
  const row = context.db.get<[number, string, number, number, number | null, number, number]>(
    `SELECT seq, id, state, lane, due, priority, coalesce(asked, priority) FROM jobs WHERE unique_key = ?1 AND ${where} AND created > ?2 - ?3 ORDER BY seq DESC LIMIT 1`,
    rule.key,
    nowUs,
    rule.withinUs ?? nowUs + 1,
  )
  if (!row) return null
  const [seq, id, state, lane, due, level, priority] = row
  const changeable =
    state === STATE.scheduled || state === STATE.available || state === STATE.retryable || state === STATE.pending
  return { seq, id, state, lane, due, level, priority, changeable }
}
