import { SluiceError } from '../../base/errors.ts'
import type { FlowEnd, FlowEntry } from '../../engine/define/flow-entry.ts'
import type { Store } from '../../store/contract/store.ts'

/** Waiting jobs that are asked for their budget at most. */
const ASKED_AT_MOST = 20

/** Runs the job of a flow's deadline: it fails the flow, and names the budget that the flow waits for. */
export async function endFlow({ flow, job, store }: FlowEntry): Promise<FlowEnd> {
  const wait = await budgetOf(store, flow)
  const error = new SluiceError(
    'flow.timeout',
    `The flow ${flow} of ${job.task} had not ended when its timeout was over${wait === null ? '' : `: it waits for the budget of ${wait}`}.`,
  )
  return { kind: 'failed', error, retry: null, uses: [], step: null }
}

/** The first budget that a job of the flow waits for, in words. */
async function budgetOf(store: Store, flow: string): Promise<string | null> {
  const { jobs = [] } = (await store.flowSteps(flow)) ?? {}
  for (const { id } of jobs.slice(0, ASKED_AT_MOST)) {
    const { waitsOn = null } = (await store.explain(id)) ?? {}
    if (waitsOn) return waitsOn.key === '' ? waitsOn.limit : `${waitsOn.limit} for ${waitsOn.key}`
  }
  return null
}
