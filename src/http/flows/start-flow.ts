import type { Duration } from '../../base/duration.ts'
import { internalsOf } from '../../engine/internals.ts'
import { requireQueue } from '../access.ts'
import { type Call, operation, type Operation } from '../operation.ts'
import { requireRoom } from '../ojs/backpressure.ts'
import { Refusal } from '../refusal.ts'
import { splitName } from '../tenant.ts'
import { ownedBy } from './owner.ts'
import { Start, WorkflowParams } from './schemas.ts'

/** Starts a flow of a workflow that the server's engine lists. */
export const startFlow: Operation = operation({
  method: 'POST',
  path: '/flows/v1/:workflow',
  name: 'startFlow',
  summary: 'Start a flow of a workflow. With a key that a running flow has, the answer names that flow.',
  params: WorkflowParams,
  body: Start,
  answers: { 201: 'The flow was started.', 200: 'A flow with this key runs already.' },
  async run(call) {
    const { input, key, delay } = call.body
    const { id, duplicate } = await startByName(call, call.params.workflow, {
      input,
      key,
      delay: typeof delay === 'string' ? (delay.replace(/^\+/, '') as Duration) : (delay ?? undefined),
    })
    return { status: duplicate ? 200 : 201, body: { id, duplicate }, headers: { Location: `/flows/v1/flows/${id}` } }
  },
})

/** Starts a flow of a workflow that the server's engine lists. @throws {Refusal} 403, 404, 429 */
export async function startByName(
  call: Call<unknown, unknown, unknown>,
  name: string,
  {
    input,
    key,
    delay,
  }: { readonly input: unknown; readonly key: string | undefined; readonly delay: Duration | undefined },
): Promise<{ readonly id: string; readonly duplicate: boolean }> {
  const { starter, workflows } = internalsOf(call.server.sluice)
  const definition = workflows.get(name)
  if (!definition)
    throw new Refusal(404, 'x_workflow_unknown', `This server lists no workflow ${JSON.stringify(name)}.`, {
      details: { resource_type: 'workflow', resource_id: name },
      hint: 'Check the name, or add the workflow to the engine of the server: new Sluice({ workflows }).',
    })
  const { queue } = definition.task
  const owner = { tenant: call.tenant, queue: splitName(queue).name }
  requireQueue(call.access, owner.queue)
  await requireRoom(call, [queue])
  const options = { ...(key !== undefined && { key }), ...(delay !== undefined && { delay }) }
  const [flow] = await starter.start(definition, [input], options, (start) => ownedBy(owner, start))
  if (!flow) throw new RangeError('one start was asked for, and none was answered')
  return { id: flow.id, duplicate: flow.duplicate }
}
