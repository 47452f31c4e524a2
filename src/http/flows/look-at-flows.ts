import { flowViewOf } from '../../engine/api/flow-views.ts'
import { FLOW_STATES, type FlowQuery, type FlowRecord, type FlowState } from '../../jobs/flow.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { invalid, notFound } from '../refusal.ts'
import { ownName } from '../tenant.ts'
import { flowJson, inspectionJson, stepJson, wordsJson } from './flow-json.ts'
import { type NamedFlow, namedFlow, seen } from './owner.ts'
import { FlowParams, FlowsQuery } from './schemas.ts'

/** Flows that one page looks at, of any tenant. */
const LOOKED_AT = 500
const AT_ONCE = 25

/** Lists flows of workflows. */
export const listFlows: Operation = operation({
  method: 'GET',
  path: '/flows/v1/flows',
  name: 'listFlows',
  summary: 'List flows of workflows, newest first. A page may hold fewer than asked for: go on while it has a cursor.',
  query: FlowsQuery,
  answers: { 200: 'A page of flows.' },
  async run(call) {
    const { workflow, key, state, limit, cursor } = call.query
    const query: FlowQuery = {
      isWorkflow: true,
      ...(workflow !== undefined && { workflow }),
      ...(key !== undefined && { key: ownName(call.tenant, key) }),
      ...(state !== undefined && { states: statesOf(state) }),
      ...(cursor !== undefined && { before: readCursor(cursor) }),
    }
    const { found, next } = await pageOf(call, query, limit)
    return ok({
      flows: found.map(({ record, owner }) => flowJson(flowViewOf(record), owner)),
      next_cursor: next === null ? null : Buffer.from(`f${next}`).toString('base64url'),
    })
  },
})

/** Shows a flow with its steps. */
export const getFlow: Operation = operation({
  method: 'GET',
  path: '/flows/v1/flows/:id',
  name: 'getFlow',
  summary: 'Show a flow with its result and its steps; a step that waits has its explanation.',
  params: FlowParams,
  answers: { 200: 'The flow.' },
  async run(call) {
    const { id } = call.params
    const { owner } = await namedFlow(call, id)
    const flow = await call.server.sluice.flows.inspect(id)
    if (!flow) throw notFound('flow', id)
    return ok(inspectionJson(flow, owner, call.server.bounds.answerBytes))
  },
})

/** Explains what a flow waits for. */
export const explainFlow: Operation = operation({
  method: 'GET',
  path: '/flows/v1/flows/:id/explain',
  name: 'explainFlow',
  summary: 'Explain what a flow waits for, at which position, and when it goes on.',
  params: FlowParams,
  answers: { 200: 'The reason in words, and the steps that wait.' },
  async run(call) {
    const { id } = call.params
    await namedFlow(call, id)
    const found = await call.server.sluice.flows.explain(id)
    if (!found) throw notFound('flow', id)
    const room = { left: call.server.bounds.answerBytes }
    return ok({ words: wordsJson(found.words, found.waits), waits: found.waits.map((step) => stepJson(step, room)) })
  },
})

/** The flows of a page that the caller may see, and the place behind the last one looked at; null: there are no more. */
async function pageOf(
  call: Call<unknown, unknown, unknown>,
  query: FlowQuery,
  limit: number,
): Promise<{ readonly found: NamedFlow[]; readonly next: number | null }> {
  const store = await call.server.remote.store()
  const records = await store.flows({ ...query, limit: LOOKED_AT })
  const found: NamedFlow[] = []
  let last: FlowRecord | null = null
  for (let from = 0; from < records.length && found.length < limit; from += AT_ONCE) {
    const some = records.slice(from, from + AT_ONCE)
    const visible = await Promise.all(some.map((record) => seen(call, record)))
    for (const [i, record] of some.entries()) {
      if (found.length === limit) break
      const flow = visible[i]
      if (flow) found.push(flow)
      last = record
    }
  }
  const isLast = last === null || (last.seq === records.at(-1)?.seq && records.length < LOOKED_AT)
  return { found, next: isLast ? null : (last?.seq ?? null) }
}

function readCursor(cursor: string): number {
  const [, before] = /^f(\d{1,15})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1')) ?? []
  if (before === undefined) throw invalid('cursor is invalid. Expected an unchanged next_cursor of an answer.')
  return Number(before)
}

function statesOf(text: string): FlowState[] {
  return text.split(',').map((name) => {
    const state = FLOW_STATES.find((each) => each === name)
    if (state !== undefined) return state
    throw invalid(`state is invalid: ${JSON.stringify(name)}. Expected one of ${FLOW_STATES.join(', ')}.`)
  })
}
