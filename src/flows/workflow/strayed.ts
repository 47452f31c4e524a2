import type { StepRecord } from '../../jobs/flow-memory.ts'
import { SluiceError } from '../../base/errors.ts'
import type { FlowEntry } from '../../engine/define/flow-entry.ts'
import { countsUnits } from '../../policy/limits/limit.ts'
import { recordOf } from '../shared/records.ts'
import type { Body } from './body.ts'

const STRAYED = '~strayed'
const SHOWN_AT_MOST = 20
/** Starts of a flow's steps for which its body then does not ask. More of them would go on for ever. */
const IN_VAIN_AT_MOST = 100

/**
 * Reports, once for each flow, that a body has not asked for steps that it had asked for before. The answer is the
 * record of that, with the number of starts in vain; null: the record stands.
 * @param inVain the step of this start is among them, or those of side jobs that the body is to replace by others
 * @throws {SluiceError} `flow.strayed` if the workflow is strict, or for too many starts in vain
 */
export function strayedFrom(body: Body, unasked: readonly string[], inVain: boolean): StepRecord | null {
  const { code, entry } = body
  const known = body.remembered(STRAYED)
  const steps = [...withdrawn(known), ...unasked].slice(0, SHOWN_AT_MOST)
  const shown = steps.join(', ')
  if (steps.length === 0) return null
  if (code.strict)
    throw new SluiceError(
      'flow.strayed',
      `The flow ${entry.flow} of ${code.name} did not ask for steps that it had asked for before: ${shown}.`,
    )
  const times = (known?.attempt ?? 0) + (inVain ? 1 : 0)
  if (times >= IN_VAIN_AT_MOST)
    throw new SluiceError(
      'flow.strayed',
      `The flow ${entry.flow} of ${code.name} asked ${times} times for a step and, once that could start, for others: the last was ${shown}. Leave the time and chance out of the names of steps, or put them into a step of their own.`,
    )
  const isTold = known !== undefined && known.result !== null
  if (isTold && !inVain) return null
  if (!isTold) entry.tell({ kind: 'strayed', steps })
  return recordOf({ name: STRAYED, state: 'done', attempt: times, result: known?.result ?? JSON.stringify(steps) })
}

/** The note of a side job that the body did not ask for its step: the next entry of the main job counts and reports it. */
export function withdrawal(body: Body, step: string): StepRecord {
  const { attempt = 0, result = null } = body.remembered(STRAYED) ?? {}
  return recordOf({ name: STRAYED, state: 'open', attempt, result, input: JSON.stringify([step]) })
}

/** Whether side jobs have started in vain since the last count. */
export function hasWithdrawn(body: Body): boolean {
  return withdrawn(body.remembered(STRAYED)).length > 0
}

/** The steps of side jobs that were withdrawn since the last report. */
function withdrawn(known: StepRecord | undefined): readonly string[] {
  return known?.state === 'open' && known.input !== null ? (JSON.parse(known.input) as string[]) : []
}

/** Gives back the units of a start that runs no step. */
export function unitsBack({ charge, engine, job }: FlowEntry): void {
  for (const { limit, weight } of job.uses) {
    // A policy that this process has yet to read counts units, unless the store knows better.
    const policy = engine.limits.policy(limit)
    if (!policy || countsUnits(policy)) charge(limit, -weight)
  }
}
