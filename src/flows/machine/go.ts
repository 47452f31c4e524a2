import { durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { toJsonText } from '../../base/json-value.ts'
import { checkOptions, show } from '../../base/options.ts'
import { asError } from '../../base/thrown.ts'
import type { FlowEnd } from '../../engine/define/flow-entry.ts'
import { validate } from '../../jobs/schema.ts'
import type { FlowMove } from '../../jobs/workflow.ts'
import { endOf, moveOf } from '../shared/records.ts'
import { MachineMove } from './moves.ts'
import { childrenOf, parkForChildren, parkForSignals } from './park.ts'
import { nextOf } from './target.ts'
import { ended, failed, type Visit } from './visit.ts'

/**
 * Where the flow goes from a step, by the move that it returned.
 * @throws {SluiceError} for a move that cannot be made
 */
export async function goFrom(visit: Visit, value: unknown, consumed: readonly number[]): Promise<FlowEnd> {
  const { move } = moveIn(visit, value)
  if (move.kind === 'fail') return failed(visit, asError(move.error), consumed)
  if (move.kind === 'retry') {
    checkOptions(move.options, ['delay'], 'to.retry')
    const { delay } = move.options
    const delayUs = delay === undefined ? 0 : durationUs(delay, 'delay of to.retry')
    return { kind: 'snoozed', delayUs }
  }
  const given = await moveTo(visit, move, consumed)
  const { entry, name } = visit
  entry.tell({ kind: 'completed', step: name, attempt: entry.job.attempt })
  const steps = [ended(visit, 'done'), ...(given.steps ?? [])]
  return { kind: 'moved', move: moveOf({ ...given, steps, consumed }), error: null }
}

type Onward = Exclude<MachineMove['move'], { kind: 'fail' | 'retry' }>

async function moveTo(
  visit: Visit,
  move: Onward,
  consumed: readonly number[],
): Promise<Partial<FlowMove> & Pick<FlowMove, 'then'>> {
  if (move.kind === 'done') return { then: endOf(await resultOf(visit, move.result), null) }
  if (move.kind === 'wait') return parkForSignals(visit, move, consumed)
  if (move.kind === 'join' && childrenOf(move).length > 0) return parkForChildren(visit, move)
  const { arrival, place, state } = await nextOf(visit, move.target, move.kind, false)
  return { state, then: { kind: 'go', arrival, place } }
}

async function resultOf({ code }: Visit, result: unknown): Promise<string | null> {
  const what = `the result of machine ${code.name}`
  if (result === undefined) return null
  if (code.result) await validate(code.result as never, result, what)
  return toJsonText(result, what)
}

function moveIn({ code, text }: Visit, value: unknown): MachineMove {
  if (value instanceof MachineMove) return value
  throw new SluiceError(
    'option.invalid',
    `The step ${text.step} of machine ${code.name} returned ${show(value)}. Expected a move, such as to.next(step, state) or to.done(result).`,
  )
}
