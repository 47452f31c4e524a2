import { fromJsonText, toJsonText } from '../../base/json-value.ts'
import { asError } from '../../base/thrown.ts'
import type { FlowEnd, FlowEntry } from '../../engine/define/flow-entry.ts'
import { validate } from '../../jobs/schema.ts'
import { HOLD_STEP } from '../../jobs/workflow.ts'
import type { FlowMemory } from '../../jobs/flow-memory.ts'
import type { Store } from '../../store/contract/store.ts'
import { type Home, plainArrival } from '../shared/arrivals.ts'
import { moveOf } from '../shared/records.ts'
import { homeOf } from '../shared/start.ts'
import { NextGeneration } from './again.ts'
import type { WorkflowCode } from './code.ts'
import { BodyEntry } from './entry.ts'
import { stepsOf } from './requests.ts'
import { SideEntry, type SideRun } from './side-entry.ts'
import { unitsBack } from './strayed.ts'

/** One entry of a workflow's body. */
export async function enterWorkflow(code: WorkflowCode, entry: FlowEntry): Promise<FlowEnd> {
  const { flow, job, run, store, tell } = entry
  if (run.step === HOLD_STEP)
    return {
      kind: 'moved',
      move: moveOf({
        keepPermits: true,
        then: { kind: 'go', arrival: plainArrival(homeIn(code, entry)), place: 'keep' },
      }),
      error: null,
    }
  // A side job runs one step of the body, and no other.
  if (job.id !== flow) return enterBeside(code, entry)
  const memory = job.memory ?? (await store.enterFlow(job.seq))
  if (!memory || memory.state !== 'running') return { kind: 'cancelled' }
  if (run.step === null && run.moves > 0) tell({ kind: 'woken' })
  const body = new BodyEntry(code, entry, memory, homeIn(code, entry))
  if (body.isPaidTwice) unitsBack(entry)
  let input: unknown
  try {
    input = await inputOf(code, memory)
  } catch (error) {
    return body.failure(asError(error))
  }
  const steps = stepsOf(body, input)
  return body.run(
    () => code.run(input, steps),
    (value) => endOf(code, body, value),
  )
}

/** The runs of side jobs that enter together, by the flow. */
const gathering = new WeakMap<Store, Map<string, SideRun[]>>()

/** Enters the body once for all side jobs of a flow that start in one turn: a wide body is read and run once for many. */
function enterBeside(code: WorkflowCode, entry: FlowEntry): Promise<FlowEnd> {
  const { flow, store } = entry
  const byFlow = gathering.get(store) ?? new Map<string, SideRun[]>()
  gathering.set(store, byFlow)
  return new Promise((end, fail) => {
    const run: SideRun = { entry, end, fail }
    const others = byFlow.get(flow)
    if (others) {
      others.push(run)
      return
    }
    const runs: [SideRun, ...SideRun[]] = [run]
    byFlow.set(flow, runs)
    // The memory is read once all have come: it has all that came before any of their steps.
    setImmediate(() => {
      byFlow.delete(flow)
      enterAll(code, runs).catch((error: unknown) => runs.forEach((each) => each.fail(error)))
    })
  })
}

async function enterAll(code: WorkflowCode, runs: readonly [SideRun, ...SideRun[]]): Promise<void> {
  const [{ entry }] = runs
  const memory = await memoryFor(runs)
  const cancel = (): void => runs.forEach(({ end }) => end({ kind: 'cancelled' }))
  if (memory?.state !== 'running') return cancel()
  const body = new SideEntry(code, runs, memory, homeIn(code, entry))
  await inputOf(code, memory).then((input) => body.run(() => code.run(input, stepsOf(body, input))), cancel)
}

/** Null: none of the jobs is stored any more. */
async function memoryFor(runs: readonly SideRun[]): Promise<FlowMemory | null> {
  for (const { entry } of runs) {
    const memory = await entry.store.enterFlow(entry.job.seq)
    if (memory) return memory
  }
  return null
}

/** @throws {SluiceError} `input.invalid` */
async function inputOf(code: WorkflowCode, { id, input }: FlowMemory): Promise<unknown> {
  return validate(code.input as never, fromJsonText(input, undefined), `the input of the flow ${id}`)
}

function homeIn(code: WorkflowCode, { job }: FlowEntry): Home {
  const { key: _key, ...own } = homeOf(code.queue, job)
  return { ...own, priority: code.priority ?? own.priority }
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
