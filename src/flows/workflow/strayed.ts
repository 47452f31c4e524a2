import { SluiceError } from '../../base/errors.ts'
import type { FlowEntry } from '../../engine/define/flow-entry.ts'
import type { StepRecord } from '../../jobs/workflow.ts'
import { recordOf } from '../shared/records.ts'
import type { WorkflowCode } from './code.ts'

const STRAYED = '~strayed'
const SHOWN_AT_MOST = 20
/** Starts of a flow's steps for which its body then does not ask. More of them would go on for ever. */
const IN_VAIN_AT_MOST = 100

interface Body {
  readonly code: WorkflowCode
  readonly entry: FlowEntry
  readonly remembered: (name: string) => StepRecord | undefined
}

/**
 * Reports, once for each flow, that a body has not asked for steps that it had asked for before. The answer is the
 * record of that, with the number of starts in vain; null: the record stands.
 * @param inVain the step of this start is among them
 * @throws {SluiceError} `flow.strayed` if the workflow is strict, or for too many starts in vain
 */
export function strayedFrom(body: Body, steps: readonly string[], inVain: boolean): StepRecord | null {
  const { code, entry } = body
  const shown = steps.slice(0, SHOWN_AT_MOST)
  if (code.strict)
    throw new SluiceError(
      'flow.strayed',
      `The flow ${entry.flow} of ${code.name} did not ask for steps that it had asked for before: ${shown.join(', ')}.`,
    )
  const known = body.remembered(STRAYED)
  const times = (known?.attempt ?? 0) + (inVain ? 1 : 0)
  if (times >= IN_VAIN_AT_MOST)
    throw new SluiceError(
      'flow.strayed',
      `The flow ${entry.flow} of ${code.name} asked ${times} times for a step and, once that could start, for others: the last was ${shown.join(', ')}. Leave the time and chance out of the names of steps, or put them into a step of their own.`,
    )
  if (known && !inVain) return null
  if (!known) entry.tell({ kind: 'strayed', steps: shown })
  return recordOf({ name: STRAYED, state: 'done', attempt: times, result: known?.result ?? JSON.stringify(shown) })
}

/** Gives back the units of a start whose step the body did not ask for. */
export function unitsBack({ charge, engine, job }: FlowEntry): void {
  for (const { limit, weight } of job.uses) {
    const rule = engine.limits.policy(limit)?.rule
    if (rule && rule.kind !== 'spacing') charge(limit, -weight)
  }
}
