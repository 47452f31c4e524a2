import { z } from 'zod'
import { type FlowStepView, type FlowView, flowViewOf } from '../../engine/api/flow-views.ts'
import { FLOW_KINDS, FLOW_STATES, type FlowQuery, type FlowRecord } from '../../jobs/flow.ts'
import type { Call, Operation } from '../operation.ts'
import { ownKey, seenFlow, visibleTo } from '../flows/owner.ts'
import { FlowName, soughtText } from '../flows/schemas.ts'
import { wordsJson } from '../flows/flow-json.ts'
import { cursorBehind, flowStatesOf, placeOfCursor } from '../flows/look-at-flows.ts'
import { queryNumber } from '../query-number.ts'
import { notFound, Refusal } from '../refusal.ts'
import { ExplanationJson, explanationJson } from './job-json.ts'
import { ownName } from '../tenant.ts'
import { monitorOperation, Reason, Time, timeOf, TimeOrNull, Why } from './monitor-operation.ts'
import { seenBy } from './seen.ts'

type AnyCall = Call<unknown, unknown, unknown>

const FlowJson = z.object({
  id: z.string(),
  kind: z.enum(FLOW_KINDS as [(typeof FLOW_KINDS)[number]]),
  name: z.string().nullable(),
  workflow: z.string().nullable(),
  key: z.string().nullable(),
  state: z.enum(FLOW_STATES as [(typeof FLOW_STATES)[number]]),
  total: z.number(),
  completed: z.number(),
  discarded: z.number(),
  cancelled: z.number(),
  createdAt: Time,
  finishedAt: TimeOrNull,
  error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
  parent: z.object({ id: z.string(), step: z.string() }).nullable(),
  meta: z.record(z.string(), z.unknown()),
})
FlowJson.register(z.globalRegistry, { id: 'MonitorFlow' })
const StepJson = z.object({
  name: z.string(),
  state: z.enum(['pending', 'done', 'running', 'waiting', 'sleeping', 'awaiting', 'failed', 'skipped']),
  attempt: z.number(),
  startedAt: TimeOrNull,
  finishedAt: TimeOrNull,
  waitedMs: z.number(),
  waitedFor: z.object({ limit: z.string(), key: z.string() }).nullable(),
  wait: ExplanationJson.optional(),
  until: TimeOrNull,
  signals: z.array(z.string()).optional(),
  after: z.array(z.string()).optional().meta({ description: 'The steps that it comes after; only of a graph.' }),
  child: z.object({ id: z.string(), workflow: z.string(), state: z.string() }).optional(),
  left: z.number().optional(),
  result: z.unknown().optional(),
  error: z.looseObject({ code: z.string(), message: z.string() }).nullable(),
})
StepJson.register(z.globalRegistry, { id: 'MonitorFlowStep' })
const OfFlow = z.object({ id: z.string().min(1).max(64) })
const Done = z.object({ done: z.boolean(), flow: FlowJson })

/** Lists flows. */
export const listFlows: Operation = monitorOperation({
  method: 'GET',
  path: '/flows',
  name: 'monitorFlows',
  summary: 'List flows, newest first. Go on while a page has a cursor.',
  query: z.strictObject({
    workflow: soughtText(1000),
    key: soughtText(1000),
    state: z.string().max(200).optional().meta({ description: 'States with commas between them.' }),
    kind: z.enum(FLOW_KINDS as [(typeof FLOW_KINDS)[number]]).optional(),
    size: queryNumber(1, 200).default(50),
    cursor: z.string().max(64).optional(),
  }),
  answer: z.object({ flows: z.array(FlowJson), cursor: z.string().nullable() }),
  async run(call) {
    const { workflow, key, state, kind, size, cursor } = call.query
    const query: FlowQuery = {
      ...(seenBy(call).tenant === null ? {} : visibleTo(call)),
      limit: size + 1,
      ...(workflow !== undefined && { workflow }),
      ...(key !== undefined && { key: seenBy(call).stored(key) }),
      ...(kind !== undefined && { kind }),
      ...(state !== undefined && { states: flowStatesOf(state) }),
      ...(cursor !== undefined && { before: placeOfCursor(cursor) }),
    }
    const records = await (await call.server.remote.store()).flows(query)
    const found = records.slice(0, size)
    return {
      flows: found.map((record) => flowJson(call, flowViewOf(record), record)),
      cursor: cursorBehind(records.length > size ? found.at(-1) : undefined),
    }
  },
})

/** Shows a flow with its steps. */
export const getFlow: Operation = monitorOperation({
  method: 'GET',
  path: '/flows/:id',
  name: 'monitorFlow',
  summary: 'Show a flow with its result and its steps; a step that waits has its explanation.',
  params: OfFlow,
  answer: FlowJson.extend({ result: z.unknown().optional(), steps: z.array(StepJson) }),
  async run(call) {
    const found = await named(call)
    const flow = await call.server.sluice.flows.inspect(call.params.id)
    if (!flow) throw notFound('flow', call.params.id)
    const { redact } = call.server.monitor
    return {
      ...flowJson(call, flow, found),
      result: redact(flow.result),
      steps: flow.steps.map((step) => stepJson(call, step)),
    }
  },
})

/** Explains what a flow waits for. */
export const explainFlow: Operation = monitorOperation({
  method: 'GET',
  path: '/flows/:id/explain',
  name: 'monitorExplainFlow',
  summary: 'Explain what a flow waits for, and when it goes on.',
  params: OfFlow,
  answer: z.object({ words: z.string(), waits: z.array(StepJson) }),
  async run(call) {
    await named(call)
    const found = await call.server.sluice.flows.explain(call.params.id)
    if (!found) throw notFound('flow', call.params.id)
    const words = seenBy(call).tenant === null ? found.words : await wordsJson(call, found.words, found.waits)
    return { words, waits: found.waits.map((step) => stepJson(call, step)) }
  },
})

/** Cancels a flow. */
export const cancelFlow: Operation = monitorOperation({
  method: 'POST',
  path: '/flows/:id/cancel',
  name: 'monitorCancelFlow',
  summary: 'Cancel a flow and the children that it waits for.',
  params: OfFlow,
  body: Why,
  answer: Done,
  run: (call) => act(call, (id) => call.server.sluice.flows.cancel(id)),
})

/** Runs a failed flow again. */
export const retryFlow: Operation = monitorOperation({
  method: 'POST',
  path: '/flows/:id/retry',
  name: 'monitorRetryFlow',
  summary: 'Run a failed flow again: from where it failed, or from a step on.',
  params: OfFlow,
  body: z.strictObject({ from: FlowName.optional(), reason: Reason }).optional(),
  answer: Done,
  run(call) {
    const from = call.body?.from
    return act(call, (id) => call.server.sluice.flows.retry(id, from === undefined ? {} : { from }))
  },
})

/** Sends a signal to a flow. */
export const signalFlow: Operation = monitorOperation({
  method: 'POST',
  path: '/flows/:id/signal',
  name: 'monitorSignalFlow',
  summary: 'Send a signal to a running flow of a workflow.',
  params: OfFlow,
  body: z.strictObject({
    name: FlowName,
    payload: z.unknown().optional(),
    once: FlowName.optional(),
    reason: Reason,
  }),
  answer: Done,
  run: (call) =>
    act(call, async (id) => {
      const { name, payload = null, once } = call.body
      const { duplicate } = await call.server.sluice.flows.signal(id, name, payload, once === undefined ? {} : { once })
      return !duplicate
    }),
})

/** The flow that a call names. One of another tenant is reported as missing. @throws {Refusal} 404 */
async function named(call: Call<{ readonly id: string }, unknown, unknown>): Promise<FlowRecord> {
  const { id } = call.params
  if (seenBy(call).tenant !== null) return (await seenFlow(call, id)).record
  const record = await (await call.server.remote.store()).getFlow(id)
  if (!record) throw notFound('flow', id)
  if (record.owner) call.concerns(ownName(record.owner.tenant, ''))
  return record
}

async function act(
  call: Call<{ readonly id: string }, unknown, unknown>,
  change: (id: string) => Promise<boolean>,
): Promise<object> {
  const found = await named(call)
  const done = await change(call.params.id)
  call.server.remote.notify()
  const flow = await call.server.sluice.flows.get(call.params.id)
  if (!flow) throw new Refusal(404, 'not_found', `The flow ${call.params.id} does not exist any more.`)
  return { done, flow: flowJson(call, flow, found) }
}

function flowJson(call: AnyCall, flow: FlowView, { owner }: FlowRecord): object {
  const { id, kind, name, workflow, state, total, completed, discarded, cancelled, error, parent } = flow
  return {
    id,
    kind,
    name,
    workflow,
    key: owner && seenBy(call).tenant !== null ? ownKey(flow.key, owner) : flow.key,
    state,
    total,
    completed,
    discarded,
    cancelled,
    createdAt: timeOf(flow.createdAt),
    finishedAt: timeOf(flow.finishedAt),
    error: error && { ...error },
    parent: parent && { ...parent },
    meta: call.server.monitor.redact({ ...flow.meta }),
  }
}

function stepJson(call: AnyCall, step: FlowStepView): object {
  const { wait, waitedFor, error, signals, after, child, ...rest } = step
  return {
    ...rest,
    startedAt: timeOf(step.startedAt),
    finishedAt: timeOf(step.finishedAt),
    until: timeOf(step.until),
    waitedFor: waitedFor && { limit: seenBy(call).name(waitedFor.limit), key: waitedFor.key },
    ...(wait && { wait: explanationJson(call, wait) }),
    ...(signals && { signals: [...signals] }),
    ...(after && { after: [...after] }),
    ...(child && { child: { ...child } }),
    result: call.server.monitor.redact(step.result),
    error: error && { ...error },
  }
}
