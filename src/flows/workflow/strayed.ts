import { SluiceError } from '../../base/errors.ts'
import type { FlowEntry } from '../../engine/define/flow-entry.ts'
import type { StepRecord } from '../../jobs/workflow.ts'
import { recordOf } from '../shared/records.ts'
import type { WorkflowCode } from './code.ts'

const STRAYED = '~strayed'
const SHOWN_AT_MOST = 20

interface Body {
  readonly code: WorkflowCode
  readonly entry: FlowEntry
  readonly remembered: (name: string) => StepRecord | undefined
}

/**
 * Reports, once for each flow, that a body has not asked for steps that it had asked for before. The answer is the
 * record of that; null: it was reported before.
 * @throws {SluiceError} `flow.strayed` if the workflow is strict
 */
export function strayedFrom(body: Body, steps: readonly string[]): StepRecord | null {
  const { code, entry } = body
  const shown = steps.slice(0, SHOWN_AT_MOST)
  if (code.strict)
    throw new SluiceError(
      'flow.strayed',
      `The flow ${entry.flow} of ${code.name} did not ask for steps that it had asked for before: ${shown.join(', ')}.`,
    )
  if (body.remembered(STRAYED)) return null
  entry.tell({ kind: 'strayed', steps: shown })
  return recordOf({ name: STRAYED, state: 'done', result: JSON.stringify(shown) })
}

/** Gives back the units of a start whose step the body did not ask for. */
export function unitsBack({ charge, engine, job }: FlowEntry): void {
  for (const { limit, weight } of job.uses) {
    const rule = engine.limits.policy(limit)?.rule
    if (rule && rule.kind !== 'spacing') charge(limit, -weight)
  }
}
