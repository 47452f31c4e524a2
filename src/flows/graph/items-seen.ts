import { SluiceError } from '../../base/errors.ts'
import type { FlowMemory, StepRecord } from '../../jobs/flow-memory.ts'
import { valueOf } from '../shared/records.ts'
import type { GraphForm } from './form.ts'
import { inputOf } from './input.ts'
import type { GraphModel } from './model.ts'
import type { SeenValues } from './seen.ts'

/** The characters of all copies of what items of a step see; beyond it their jobs leave it with the flow. */
export const COPIED_AT_MOST = 1_048_576
/** The steps whose items see what this process remembers. */
const KEPT_AT_MOST = 100

/** Makes the values that one item sees. They are read from JSON when the item looks at them: no item shares them. */
type Look = () => SeenValues | Promise<SeenValues>

/** The task of the items of a step that leave what they see with their flow. Processes that cannot read it lack the task. */
export function itemsTask(task: string): string {
  return `${task}[]`
}

/** Reads once from its flow, for all items of a step, the values that they see. */
export class ItemsSeen {
  readonly #model: GraphModel
  /** By the id that a step gives its items when it begins; the least recently used first. */
  readonly #known = new Map<string, Promise<Look>>()

  constructor(model: GraphModel) {
    this.#model = model
  }

  /** @param read reads the flow, unless it was read for these items before */
  async of(id: string, step: string, read: () => Promise<FlowMemory | null>): Promise<SeenValues> {
    const look = this.#known.get(id) ?? read().then((memory) => lookOf(this.#model, step, memory))
    this.#known.delete(id)
    this.#known.set(id, look)
    for (const oldest of this.#known.keys()) if (this.#known.size > KEPT_AT_MOST) this.#known.delete(oldest)
    try {
      const seen = await look
      return await seen()
    } catch (error) {
      // The next item reads again.
      this.#known.delete(id)
      throw error
    }
  }
}

/** The values that a step sees that comes after these. Failures are data, and a skipped step has no value. */
export function outcomesOf(
  after: readonly string[],
  record: (name: string) => StepRecord | undefined,
): Map<string, () => unknown> {
  const outcomes = new Map<string, () => unknown>()
  for (const name of after) {
    const { state, result, error } = record(name) ?? {}
    if (state === 'done') outcomes.set(name, () => valueOf(result ?? 'null'))
    else if (state === 'failed') outcomes.set(name, () => ({ failed: { code: error?.code, message: error?.message } }))
  }
  return outcomes
}

async function lookOf(model: GraphModel, step: string, memory: FlowMemory | null): Promise<Look> {
  if (!memory) throw new SluiceError('flow.not_found', 'The flow of this item is gone.')
  const form = memory.definition === null ? model.form : (JSON.parse(memory.definition) as GraphForm)
  const records = new Map(memory.steps.map((record) => [record.name, record]))
  const outcomes = outcomesOf(form.steps[step]?.after ?? [], (name) => records.get(name))
  const { input: text } = memory
  const input = (): unknown => inputOf(model, valueOf(text) ?? undefined)
  const first = input()
  if (!(first instanceof Promise)) return () => lazily(new Map([['input', input], ...outcomes]))
  await first
  return async () => {
    const checked = await input()
    return lazily(new Map([['input', () => checked], ...outcomes]))
  }
}

/** An object that makes each of its values when it is read first. Step code may change it, and freeze it. */
function lazily(values: ReadonlyMap<string, () => unknown>): Record<string, unknown> {
  const seen: Record<string, unknown> = {}
  for (const [name, make] of values) {
    let made: { readonly value: unknown } | null = null
    Object.defineProperty(seen, name, {
      enumerable: true,
      configurable: true,
      get: () => (made ??= { value: make() }).value,
      set: (value: unknown) => {
        made = { value }
      },
    })
  }
  return seen
}
