import type { StepContext } from '../shared/step-context.ts'
import type { Schemas } from '../shared/startable.ts'
import { type ArrivalOptions, type ChildStart, MachineMove, type Move, type To } from './moves.ts'
import type { Woken } from './woken.ts'

type AnyTo = To<Schemas, Schemas, unknown>

/** The `to` of one run of a step. Its moves are values: they do something once the step returns one. */
export function toOf(
  context: StepContext,
  step: string,
  { signals, children }: Extract<Woken, { kind: 'enter' }>,
): AnyTo {
  const made = (move: MachineMove['move']): Move<unknown> =>
    Object.freeze(new MachineMove(move)) as unknown as Move<unknown>
  const target = (to: unknown, state: unknown, arrival: unknown = {}) => ({
    step: to,
    state,
    arrival: arrival as ArrivalOptions<never>,
  })
  const own = {
    step,
    signals,
    children,
    next: (to: unknown, state: unknown, arrival?: unknown) =>
      made({ kind: 'next', target: target(to, state, arrival) }),
    retry: (options: { delay?: never } = {}) => made({ kind: 'retry', options }),
    wait: (on: readonly string[], to: unknown, state: unknown, arrival?: unknown) =>
      made({ kind: 'wait', on, target: target(to, state, arrival) }),
    join: (given: readonly unknown[], to: unknown, state: unknown, arrival?: unknown) =>
      made({ kind: 'join', children: given as readonly ChildStart[], target: target(to, state, arrival) }),
    done: (result: unknown) => made({ kind: 'done', result }),
    fail: (error: unknown) => made({ kind: 'fail', error }),
  }
  // The getter of the signal stays one: most steps never read it.
  return Object.defineProperties(own, {
    ...Object.getOwnPropertyDescriptors(context),
    step: { value: step, enumerable: true },
  }) as unknown as AnyTo
}
