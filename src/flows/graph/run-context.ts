import { toJsonText } from '../../base/json-value.ts'
import type { FlowEnd, FlowEntry } from '../../engine/define/flow-entry.ts'
import { validate } from '../../jobs/schema.ts'
import { SluiceError } from '../../base/errors.ts'
import { valueOf } from '../shared/records.ts'
import { homeOf } from '../shared/start.ts'
import { misfit } from './misfit.ts'
import type { GraphModel, StepCode } from './model.ts'
import type { Progress } from './progress.ts'
import type { SeenValues } from './seen.ts'

/** The largest input of a step: what it sees, in bytes of JSON text. */
const SEEN_AT_MOST = 4 * 1_048_576

/** One entry of a graph's main job: the code that this process has, and how far the flow has come. */
export class RunContext {
  readonly model: GraphModel
  readonly entry: FlowEntry
  readonly progress: Progress
  readonly home: ReturnType<typeof homeOf>
  /** Nothing else is to begin or has yet to end, so a step may run in the slot of this entry. */
  isAlone = false
  /** A write within the entry has ended it. */
  ended: FlowEnd | null = null
  #input: Promise<unknown> | null = null

  constructor(model: GraphModel, entry: FlowEntry, progress: Progress) {
    this.model = model
    this.entry = entry
    this.progress = progress
    this.home = homeOf(model.queue, entry.job)
  }

  code(step: string): StepCode | undefined {
    return this.model.steps.get(step)
  }

  /** The values that a step sees that comes after these. Failures are data, and a skipped step has no value. */
  async seen(after: readonly string[]): Promise<SeenValues> {
    this.#input ??= inputOf(this.model, valueOf(this.progress.memory.input))
    const seen: Record<string, unknown> = { input: await this.#input }
    for (const name of after) {
      const { state, result, error } = this.progress.record(name) ?? {}
      if (state === 'done') seen[name] = valueOf(result ?? 'null')
      else if (state === 'failed') seen[name] = { failed: { code: error?.code, message: error?.message } }
    }
    return seen
  }

  /** The same, with values that no other step has seen. */
  fresh(after: readonly string[]): Promise<SeenValues> {
    this.#input = null
    return this.seen(after)
  }

  /** The input of a step's job: what it sees, with the flow's input as it was stored. */
  textOf(step: string, seen: SeenValues): string {
    const { id, key, input } = this.progress.memory
    const value = { ...seen, input: valueOf(input), flow: { id, key, step } }
    return toJsonText(value, `what the step ${step} sees`, SEEN_AT_MOST)
  }
}

/** The input of a flow, checked by the graph's schema. @throws {SluiceError} `input.invalid` */
export async function inputOf(model: Pick<GraphModel, 'form' | 'schema' | 'shape'>, value: unknown): Promise<unknown> {
  const what = `the input of graph ${model.form.name}`
  if (model.schema) return validate(model.schema, value, what)
  const why = model.shape && misfit(model.shape, value)
  if (why) throw new SluiceError('input.invalid', `${what} is invalid: ${why}.`)
  return value
}
