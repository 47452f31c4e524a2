import type { AnyTask } from '../../engine/define/task.ts'
import type { Schema } from '../../jobs/schema.ts'
import type { UseSpec } from '../../policy/limits/define.ts'
import type { StepContext } from '../shared/step-context.ts'
import type { GraphForm } from './form.ts'
import type { InputShape } from './input-shape.ts'

/** A function over what a step sees. */
export type Over<R = unknown> = (seen: never) => R

/** The code of a step, which a form cannot hold. A part is null where the form says it as data. */
export interface StepCode {
  readonly run: ((seen: never, step: StepContext) => unknown) | null
  /** In the order of the form's limits. */
  readonly uses: readonly UseSpec<never>[]
  readonly when: Over<boolean> | null
  readonly each: Over<readonly unknown[]> | null
  readonly input: Over | null
  readonly sleep: Over<Date> | null
  readonly task: AnyTask | null
  readonly child: { readonly name: string } | null
  /** Of a signal. */
  readonly payload: Schema | null
  readonly undo: Pick<StepCode, 'run' | 'uses'> | null
}

/** A graph with its code: what an engine runs. */
export interface GraphModel {
  readonly form: GraphForm
  readonly hash: string
  /** Where its flows and steps wait that name no other. */
  readonly queue: string
  /** It was written as JSON: its tasks and children are names, which the engine must list. */
  readonly isJson: boolean
  readonly schema: Schema<never, unknown> | null
  /** The input's shape, of a graph that was written as JSON; null: not described. */
  readonly shape: InputShape | null
  readonly steps: ReadonlyMap<string, StepCode>
  readonly key: Over<string> | null
  readonly hold: readonly UseSpec<never>[]
  readonly output: Over | null
  /** Every limit that it names by an object, for the engine's registry. */
  readonly limits: readonly UseSpec<never>[]
}
