import { SluiceError } from '../../base/errors.ts'
import { fromJsonText } from '../../base/json-value.ts'
import { asError } from '../../base/thrown.ts'
import type { FlowEnd, FlowEntry } from '../../engine/define/flow-entry.ts'
import { NonRetryable } from '../../jobs/handler-errors.ts'
import { isRateLimited } from '../../jobs/is-rate-limited.ts'
import { validate } from '../../jobs/schema.ts'
import { HOLD_STEP } from '../../jobs/workflow.ts'
import { moveOf, waitOf } from '../shared/records.ts'
import { homeOf } from '../shared/start.ts'
import { runStep } from '../shared/step-context.ts'
import { isStoreTrouble } from '../shared/store-trouble.ts'
import type { MachineCode } from './code.ts'
import { goFrom } from './go.ts'
import { readStepText, visitName } from './step-text.ts'
import { arrivalAt } from './target.ts'
import { toOf } from './to.ts'
import { failed, type Visit } from './visit.ts'
import { memoryOf, NOT_WOKEN, wokenBy } from './woken.ts'

/** Runs one step of a machine, and answers where its flow goes. */
export async function enterMachine(code: MachineCode, entry: FlowEntry): Promise<FlowEnd> {
  const { step } = entry.run
  const isGate = step === HOLD_STEP
  const text = readStepText(isGate ? code.first : (step ?? (await retriedStep(entry)) ?? code.first))
  const visit = { code, entry, text, name: visitName(text), home: homeOf(code.queue, entry.job) }
  try {
    const state = await stateOf(visit)
    return await (isGate || step === null ? arrive(visit, state, isGate) : run(visit, state))
  } catch (error) {
    if (isStoreTrouble(error)) throw error
    // The state, or a limit of the first step, is wrong: another attempt would find the same.
    return failed(visit, asError(error), [])
  }
}

/** Goes to the step, whose limits are still to be paid. Behind a gate its permits stay with the flow. */
async function arrive(visit: Visit, state: unknown, keepPermits: boolean): Promise<FlowEnd> {
  const arrival = await arrivalAt(visit, visit.name, visit.text.step, state, {})
  return { kind: 'moved', move: moveOf({ keepPermits, then: { kind: 'go', arrival, place: 'keep' } }), error: null }
}

/** The step from which a caller runs the flow again. */
async function retriedStep(entry: FlowEntry): Promise<string | null> {
  const { steps } = await memoryOf(entry)
  return steps.find(({ state }) => state === 'retrying')?.name ?? null
}

async function run(visit: Visit, state: unknown): Promise<FlowEnd> {
  const { code, entry, home, name, text } = visit
  const { job, tell } = entry
  const woken = text.isWoken ? await wokenBy(visit) : NOT_WOKEN
  if (woken.kind === 'park') return { kind: 'moved', move: moveOf({ then: woken.then }), error: null }
  const { attempt } = job
  tell({ kind: 'started', step: name, attempt, waited: waitOf(job) })
  const terms = { step: name, attempt, generation: 0, flowKey: home.key, timeoutMs: code.timeoutMs }
  const outcome = await runStep(entry, terms, (context) =>
    code.run[text.step]?.(state, toOf(context, text.step, woken)),
  )
  if (!outcome.ok) return attemptFailed(visit, outcome.error, woken.consumed)
  try {
    return await goFrom(visit, outcome.value, woken.consumed)
  } catch (error) {
    if (isStoreTrouble(error)) throw error
    // Where it wants to go cannot be: another attempt would want the same.
    return failed(visit, asError(error), woken.consumed)
  }
}

/** A failed attempt is tried again, as the machine's policy says. The last one fails the flow. */
function attemptFailed(visit: Visit, error: Error, consumed: readonly number[]): FlowEnd {
  const { code, entry, text } = visit
  const { attempt, maxAttempts } = entry.job
  const isLast = error instanceof NonRetryable || (attempt >= maxAttempts && !isRateLimited(error))
  if (isLast) return failed(visit, error, consumed)
  return { kind: 'failed', error, retry: code.retry, uses: code.limits.get(text.step) ?? [], step: visit.name }
}

async function stateOf({ code, entry, text }: Visit): Promise<unknown> {
  const schema = Object.hasOwn(code.states, text.step) ? code.states[text.step] : undefined
  if (!schema)
    throw new SluiceError(
      'flow.step_unknown',
      `The machine ${code.name} has no step ${JSON.stringify(text.step)}. Deploy code that has it, then retry the flow.`,
    )
  try {
    const raw = fromJsonText(entry.job.input, undefined)
    return await validate(schema as never, raw, `the state of step ${text.step} of machine ${code.name}`)
  } catch (cause) {
    throw new SluiceError('state.invalid', asError(cause).message, { cause })
  }
}
