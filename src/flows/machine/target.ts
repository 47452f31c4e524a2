import { durationUs } from '../../base/duration.ts'
import { SluiceError } from '../../base/errors.ts'
import { toJsonText } from '../../base/json-value.ts'
import { didYouMean } from '../../base/nearest.ts'
import { checkOptions, quote } from '../../base/options.ts'
import { specsOf } from '../../engine/define/limit-registry.ts'
import { validate } from '../../jobs/schema.ts'
import type { Arrival } from '../../jobs/workflow.ts'
import { arrivalOf, checkPlace, resolveUses } from '../shared/arrivals.ts'
import type { MachineCode } from './code.ts'
import type { ArrivalOptions, Target } from './moves.ts'
import { nextVisit, visitName } from './step-text.ts'
import type { Visit } from './visit.ts'

/** The next step of a machine, checked. */
export interface Next {
  /** Its name in the history. */
  readonly name: string
  /** JSON text. */
  readonly state: string
  readonly arrival: Arrival
  readonly place: 'keep' | 'new'
}

/** The options of each way to a step. An option that could do nothing is refused. */
const OPTIONS = {
  next: ['limits', 'delay', 'priority', 'queue'],
  wait: ['limits', 'within', 'priority', 'queue'],
  join: ['limits', 'priority', 'queue'],
} as const

const ALIASES = { next: { within: 'delay' }, wait: { delay: 'within', timeout: 'within' }, join: {} } as const

/** A move by which a flow reaches a step. */
export type Way = keyof typeof OPTIONS

/**
 * Checks the next step and its state, and computes what must admit it.
 * @param way with `wait` and `join` its run reads what it waited for
 * @param isWoken false: of a join without children, which waits for nothing
 * @throws {SluiceError} `option.invalid`, `state.invalid`, and the codes of limits
 */
export async function nextOf(visit: Visit, target: Target, way: Way, isWoken: boolean = way !== 'next'): Promise<Next> {
  const { code, text } = visit
  const step = stepIn(code, target.step)
  const { lap, isNew } = nextVisit(code.steps, text, step)
  const name = visitName({ step, lap })
  const what = `the state of step ${step} of machine ${code.name}`
  const state = toJsonText(target.state, what)
  const output = await stateOf(code, step, target.state, what)
  checkOptions(target.arrival, OPTIONS[way], `to.${way} of machine ${code.name}`, { aliases: ALIASES[way] })
  const arrival = await arrivalAt(visit, isWoken ? `${name}*` : name, step, output, target.arrival)
  return { name, state, arrival, place: isNew ? 'new' : 'keep' }
}

/** The arrival at a step: the limits declared on it, and those of the move. */
export async function arrivalAt(
  { code, entry, home }: Visit,
  name: string,
  step: string,
  output: unknown,
  options: ArrivalOptions<never>,
): Promise<Arrival> {
  const what = `step ${step} of machine ${code.name}`
  const own = [...(code.limits.get(step) ?? []), ...specsOf(options.limits, `limits of the way to ${what}`)]
  const place = checkPlace(options, home, what)
  const uses = await resolveUses(entry.engine, own, output, place, what)
  const delayUs = options.delay === undefined ? 0 : durationUs(options.delay, `delay of the way to ${what}`)
  return arrivalOf(name, { uses, ...place, retry: code.retry }, 0, delayUs === 0 ? null : delayUs)
}

function stepIn({ name, steps }: MachineCode, step: unknown): string {
  if (typeof step === 'string' && steps.includes(step)) return step
  throw new SluiceError(
    'option.invalid',
    `The machine ${name} has no step ${quote(step)}${didYouMean(String(step), steps)}Expected one of ${steps.join(', ')}.`,
  )
}

async function stateOf({ states }: MachineCode, step: string, state: unknown, what: string): Promise<unknown> {
  try {
    return await validate(states[step] as never, state, what)
  } catch (cause) {
    throw cause instanceof SluiceError ? new SluiceError('state.invalid', cause.message, { cause }) : cause
  }
}
