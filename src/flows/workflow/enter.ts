import { fromJsonText, toJsonText } from '../../base/json-value.ts'
import { asError } from '../../base/thrown.ts'
import type { FlowEnd, FlowEntry } from '../../engine/define/flow-entry.ts'
import { validate } from '../../jobs/schema.ts'
import { HOLD_STEP } from '../../jobs/workflow.ts'
import { plainArrival } from '../shared/arrivals.ts'
import { moveOf } from '../shared/records.ts'
import { homeOf } from '../shared/start.ts'
import { NextGeneration } from './again.ts'
import type { WorkflowCode } from './code.ts'
import { BodyEntry } from './entry.ts'
import { stepsOf } from './requests.ts'

/** One entry of a workflow's body. */
export async function enterWorkflow(code: WorkflowCode, entry: FlowEntry): Promise<FlowEnd> {
  const { flow, job, run, store, tell } = entry
  const { key: _key, ...own } = homeOf(code.queue, job)
  const home = { ...own, priority: code.priority ?? own.priority }
  if (run.step === HOLD_STEP)
    return {
      kind: 'moved',
      move: moveOf({ keepPermits: true, then: { kind: 'go', arrival: plainArrival(home), place: 'keep' } }),
      error: null,
    }
  const memory = await store.enterFlow(job.seq)
  if (!memory || memory.state !== 'running') return { kind: 'cancelled' }
  if (run.step === null && run.moves > 0 && job.id === flow) tell({ kind: 'woken' })
  const body = new BodyEntry(code, entry, memory, home)
  let input: unknown
  try {
    input = await validate(code.input as never, fromJsonText(memory.input, undefined), `the input of the flow ${flow}`)
  } catch (error) {
    return body.isSide ? { kind: 'cancelled' } : body.failure(asError(error))
  }
  const steps = stepsOf(body, input)
  return body.run(
    () => code.run(input, steps),
    (value) => endOf(code, body, value),
  )
}

/** The end of an entry whose body has returned. */
async function endOf(code: WorkflowCode, body: BodyEntry, value: unknown): Promise<FlowEnd> {
  if (value instanceof NextGeneration) {
    const what = `the input of again in workflow ${code.name}`
    await validate(code.input as never, value.input, what)
    return body.generation(toJsonText(value.input, what))
  }
  return body.completion(value === undefined ? null : toJsonText(value, `the result of workflow ${code.name}`))
}
