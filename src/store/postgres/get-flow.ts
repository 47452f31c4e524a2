import type { Statements } from '../../database/postgres.ts'
import type { FlowQuery, FlowRecord } from '../../jobs/flow.ts'
import { FLOW_COLUMNS, type FlowRow, storedFlowState, toFlowRecord } from '../shared/stored-flows.ts'
import { isUuid } from './get.ts'

const SELECT = `SELECT ${FLOW_COLUMNS} FROM sluice.flows`

/** One flow by its id. */
export async function getFlow(db: Statements, id: string): Promise<FlowRecord | null> {
  const row = isUuid(id) ? await db.get<FlowRow>(`${SELECT} WHERE id = $1::uuid`, id) : undefined
  return row ? toFlowRecord(row) : null
}

/** Flows by state, kind, name and age, newest first. */
export async function flows(db: Statements, query: FlowQuery): Promise<FlowRecord[]> {
  const where = ['seq < $1']
  const values: (string | number | number[])[] = [query.before ?? Number.MAX_SAFE_INTEGER]
  if (query.states) where.push(`state = ANY ($${values.push(query.states.map(storedFlowState))}::int[])`)
  if (query.kind !== undefined) where.push(`kind = $${values.push(query.kind)}`)
  if (query.name !== undefined) where.push(`name = $${values.push(query.name)}`)
  const limit = values.push(query.limit ?? 100)
  const rows = await db.all<FlowRow>(
    `${SELECT} WHERE ${where.join(' AND ')} ORDER BY seq DESC LIMIT $${limit}`,
    ...values,
  )
  return rows.map(toFlowRecord)
}
