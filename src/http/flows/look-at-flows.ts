import { flowViewOf } from '../../engine/api/flow-views.ts'
import { FLOW_STATES, type FlowQuery, type FlowState } from '../../jobs/flow.ts'
import { ok, operation, type Operation } from '../operation.ts'
import { invalid, invalidCursor, notFound } from '../refusal.ts'
import { ownName } from '../tenant.ts'
import { flowJson, inspectionJson, stepJson, wordsJson } from './flow-json.ts'
import { namedFlow, visibleTo } from './owner.ts'
import { FlowParams, FlowsQuery } from './schemas.ts'

/** Lists flows of workflows. */
export const listFlows: Operation = operation({
  method: 'GET',
  path: '/flows/v1/flows',
  name: 'listFlows',
  summary: 'List flows of workflows, newest first. Go on while a page has a cursor.',
  query: FlowsQuery,
  answers: { 200: 'A page of flows.' },
  async run(call) {
    const { workflow, key, state, limit, cursor } = call.query
    const query: FlowQuery = {
      isWorkflow: true,
      ...visibleTo(call),
      limit: limit + 1,
      ...(workflow !== undefined && { workflow }),
      ...(key !== undefined && { key: ownName(call.tenant, key) }),
      ...(state !== undefined && { states: flowStatesOf(state) }),
      ...(cursor !== undefined && { before: placeOfCursor(cursor) }),
    }
    const records = await (await call.server.remote.store()).flows(query)
    const found = records.slice(0, limit)
    const last = records.length > limit ? found.at(-1) : undefined
    return ok({
      flows: found.flatMap((record) => (record.owner ? [flowJson(flowViewOf(record), record.owner)] : [])),
      next_cursor: cursorBehind(last),
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
    return ok(inspectionJson(call, flow, owner))
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
    const words = await wordsJson(call, found.words, found.waits)
    return ok({ words, waits: found.waits.map((step) => stepJson(call, step, room)) })
  },
})

/** The place that a cursor names. @throws {Refusal} 400 */
export function placeOfCursor(cursor: string): number {
  const [, before] = /^f(\d{1,15})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1')) ?? []
  if (before === undefined) throw invalidCursor()
  return Number(before)
}

/** The states that a text names, with commas between them. @throws {Refusal} 400 */
export function flowStatesOf(text: string): FlowState[] {
  return text.split(',').map((name) => {
    const state = FLOW_STATES.find((each) => each === name)
    if (state !== undefined) return state
    throw invalid(`state is invalid: ${JSON.stringify(name)}. Expected one of ${FLOW_STATES.join(', ')}.`)
  })
}

/** The cursor of the page behind a flow; null: there is none. */
export function cursorBehind(last: { readonly seq: number } | undefined): string | null {
  return last ? Buffer.from(`f${last.seq}`).toString('base64url') : null
}
