import { toJsonText } from '../../base/json-value.ts'
import type { FlowEnd, FlowEntry } from '../../engine/define/flow-entry.ts'
import { valueOf } from '../shared/records.ts'
import { homeOf } from '../shared/start.ts'
import { inputOf } from './input.ts'
import { outcomesOf } from './items-seen.ts'
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

  /** The values that a step sees that comes after these. */
  async seen(after: readonly string[]): Promise<SeenValues> {
    this.#input ??= this.#checked()
    const seen: Record<string, unknown> = { input: await this.#input }
    for (const [name, outcome] of outcomesOf(after, (step) => this.progress.record(step))) seen[name] = outcome()
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
    return toJsonText(value, seenBy(step), SEEN_AT_MOST)
  }

  /**
   * The input of an item's job that leaves the rest with its flow, under an id of this begin of the step.
   * @param own what no other item sees
   */
  itemTextOf(step: string, own: SeenValues, seen: string): string {
    const { id, key } = this.progress.memory
    return toJsonText({ ...own, flow: { id, key, step, seen } }, seenBy(step), SEEN_AT_MOST)
  }

  async #checked(): Promise<unknown> {
    return inputOf(this.model, valueOf(this.progress.memory.input))
  }
}

function seenBy(step: string): string {
  return `what the step ${step} sees`
}
