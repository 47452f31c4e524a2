import type { Duration } from '../../base/duration.ts'
import { internalsOf } from '../../engine/internals.ts'
import { requireQueue } from '../access.ts'
import { operation, type Operation } from '../operation.ts'
import { requireRoom } from '../ojs/backpressure.ts'
import { Refusal } from '../refusal.ts'
import { splitName } from '../tenant.ts'
import { ownedBy } from './owner.ts'
import { NoQuery, Start, WorkflowParams } from './schemas.ts'

/** Starts a flow of a workflow that the server's engine lists. */
export const startFlow: Operation = operation({
  method: 'POST',
  path: '/flows/v1/:workflow',
  name: 'startFlow',
  summary: 'Start a flow of a workflow. With a key that a running flow has, the answer names that flow.',
  params: WorkflowParams,
  query: NoQuery,
  body: Start,
  answers: { 201: 'The flow was started.', 200: 'A flow with this key runs already.' },
  async run(call) {
    const { body, params, server, tenant } = call
    const { starter, workflows } = internalsOf(server.sluice)
    const definition = workflows.get(params.workflow)
    if (!definition)
      throw new Refusal(
        404,
        'x_workflow_unknown',
        `This server lists no workflow ${JSON.stringify(params.workflow)}.`,
        {
          details: { resource_type: 'workflow', resource_id: params.workflow },
          hint: 'Check the name, or add the workflow to the engine of the server: new Sluice({ workflows }).',
        },
      )
    const { queue } = definition.task
    const owner = { tenant, queue: splitName(queue).name }
    requireQueue(call.access, owner.queue)
    await requireRoom(call, [queue])
    const { key, delay } = body
    const options = {
      ...(key !== undefined && { key }),
      ...(delay !== undefined && delay !== null && { delay: delayOf(delay) }),
    }
    const [flow] = await starter.start(definition, [body.input], options, (start) => ownedBy(owner, start))
    if (!flow) throw new RangeError('one start was asked for, and none was answered')
    const { id, duplicate } = flow
    return { status: duplicate ? 200 : 201, body: { id, duplicate }, headers: { Location: `/flows/v1/flows/${id}` } }
  },
})

function delayOf(delay: string | number): Duration {
  return typeof delay === 'number' ? delay : (delay.replace(/^\+/, '') as Duration)
}
