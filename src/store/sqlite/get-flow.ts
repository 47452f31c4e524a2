import type { FlowQuery, FlowRecord } from '../../jobs/flow.ts'
import { FLOW_COLUMNS, type FlowRow, storedFlowState, toFlowRecord } from '../shared/stored-flows.ts'
import type { Context } from './context.ts'

const SELECT = `SELECT ${FLOW_COLUMNS} FROM flows`

/** One flow by its id. */
export function getFlow(context: Context, id: string): FlowRecord | null {
  const row = context.db.get<FlowRow>(`${SELECT} WHERE id = ?`, id)
  return row ? toFlowRecord(row) : null
}

/** Flows by state, kind, name and age, newest first. */
export function flows(context: Context, { states, kind, name, limit = 100, before }: FlowQuery): FlowRecord[] {
  const where = ['seq < ?']
  const values: (string | number)[] = [before ?? Number.MAX_SAFE_INTEGER]
  if (states) where.push(`state IN (${states.map(storedFlowState).join(', ')})`)
  if (kind !== undefined) {
    where.push('kind = ?')
    values.push(kind)
  }
  if (name !== undefined) {
    where.push('name = ?')
    values.push(name)
  }
  return context.db
    .all<FlowRow>(`${SELECT} WHERE ${where.join(' AND ')} ORDER BY seq DESC LIMIT ?`, ...values, limit)
    .map(toFlowRecord)
}
