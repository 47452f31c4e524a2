import type { Client } from 'pg'
import type { Watched } from './postgres-watched.ts'

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Actual Rows'?: number
  readonly 'Actual Loops'?: number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Join Filter'?: number
  readonly Plans?: readonly PlanNode[]
}

interface Logged {
  readonly 'Query Text': string
  readonly Plan: PlanNode
}

/** A statement, and how many rows all nodes of its plan gave or dropped. */
export interface Steps {
  readonly query: string
  readonly rows: number
}

const SETTINGS = {
  log_min_duration: '0',
  log_nested_statements: 'on',
  log_analyze: 'on',
  log_timing: 'off',
  log_format: 'json',
} as const

/** The row steps of each statement that a store of one connection runs in the meantime, the most first. */
export async function rowSteps({ pool }: Watched, work: () => Promise<void>): Promise<readonly Steps[]> {
  const connect = async () => (await pool.connect()) as unknown as Client & { release(): void }
  const client = await connect()
  const logged: Logged[] = []
  const noticed = ({ message = '' }: { message?: string | undefined }): void => {
    const at = message.indexOf('{')
    if (at >= 0) logged.push(JSON.parse(message.slice(at)) as Logged)
  }
  const run = (text: string): Promise<unknown> => client.query({ text })
  await run(`LOAD 'auto_explain'`)
  for (const [name, value] of Object.entries(SETTINGS)) await run(`SET auto_explain.${name} = '${value}'`)
  await run('SET client_min_messages = log')
  client.on('notice', noticed)
  client.release()
  await work()
  const same = await connect()
  same.off('notice', noticed)
  await same.query({ text: `SET auto_explain.log_min_duration = -1` })
  await same.query({ text: 'RESET client_min_messages' })
  same.release()
  return logged
    .map(({ 'Query Text': query, Plan: plan }) => ({ query, rows: rowsOf(plan) }))
    .toSorted((a, b) => b.rows - a.rows)
}

function rowsOf(node: PlanNode): number {
  const { 'Actual Rows': given = 0, 'Actual Loops': loops = 0, Plans: below = [] } = node
  const dropped = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Join Filter'] ?? 0)
  return (given + dropped) * loops + below.reduce((sum, each) => sum + rowsOf(each), 0)
}
