import { flowViewOf } from '../../engine/api/flow-views.ts'
import { type Call, ok, operation, type Operation, type Reply } from '../operation.ts'
import { Refusal } from '../refusal.ts'
import { flowJson } from './flow-json.ts'
import { namedFlow } from './owner.ts'
import { FlowParams, Nothing, Retry, Signal, SignalParams } from './schemas.ts'

/** Sends a signal to a flow. */
export const signalFlow: Operation = operation({
  method: 'POST',
  path: '/flows/v1/flows/:id/signals/:name',
  name: 'signalFlow',
  summary:
    'Send a signal to a running flow. It is stored before the answer; a second one of the same name and once does nothing.',
  params: SignalParams,
  body: Signal,
  answers: { 200: 'The signal is stored; duplicate: it was before.' },
  async run(call) {
    const { body, params, server } = call
    await namedFlow(call, params.id)
    const { once, payload = null } = body
    const options = once === undefined ? {} : { once }
    const { duplicate } = await server.sluice.flows.signal(params.id, params.name, payload, options)
    server.remote.notify()
    return ok({ duplicate })
  },
})

/** Cancels a flow. */
export const cancelFlow: Operation = operation({
  method: 'POST',
  path: '/flows/v1/flows/:id/cancel',
  name: 'cancelFlow',
  summary: 'Cancel a flow and the children that it waits for.',
  params: FlowParams,
  body: Nothing,
  answers: { 200: 'The flow was cancelled.' },
  run: (call) => act(call, 'cancelled', (id) => call.server.sluice.flows.cancel(id)),
})

/** Runs a failed flow again. */
export const retryFlow: Operation = operation({
  method: 'POST',
  path: '/flows/v1/flows/:id/retry',
  name: 'retryFlow',
  summary: 'Run a failed flow again: from where it failed, or from a step on.',
  params: FlowParams,
  body: Retry,
  answers: { 200: 'The flow goes on.' },
  run(call) {
    const from = call.body?.from
    const options = from === undefined ? {} : { from }
    return act(call, 'retried', (id) => call.server.sluice.flows.retry(id, options))
  },
})

/** Changes a flow, and shows it. @throws {Refusal} 404; 409 if its state does not allow it */
async function act(
  call: Call<{ readonly id: string }, unknown, unknown>,
  what: string,
  change: (id: string) => Promise<boolean>,
): Promise<Reply> {
  const { id } = call.params
  const { owner, record } = await namedFlow(call, id)
  if (!(await change(id)))
    throw new Refusal(409, 'conflict', `The flow ${id} is ${record.state} and cannot be ${what}.`, {
      details: { resource_type: 'flow', resource_id: id, current_state: record.state },
      hint: 'Read the flow again: its state does not allow this.',
    })
  call.server.remote.notify()
  const now = await call.server.sluice.flows.get(id)
  return ok({ flow: flowJson(now ?? flowViewOf(record), owner) })
}
