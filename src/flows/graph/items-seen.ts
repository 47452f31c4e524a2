import { SluiceError } from '../../base/errors.ts'
import type { FlowMemory, StepRecord } from '../../jobs/flow-memory.ts'
import { valueOf } from '../shared/records.ts'
import type { GraphForm } from './form.ts'
import { inputOf } from './input.ts'
import type { GraphModel } from './model.ts'
import type { SeenValues } from './seen.ts'

/** Copies of what all items of a step see, in bytes together; beyond it their jobs leave it with the flow. */
export const COPIED_AT_MOST = 1_048_576
/** The steps whose items see what this process remembers. */
const KEPT_AT_MOST = 16

/** Makes the values that one item sees. They are read from JSON when the item looks at them: no item shares them. */
type Look = () => SeenValues | Promise<SeenValues>

/** The task of the items of a step that leave what they see with their flow. Processes that cannot read it lack the task. */
export function itemsTask(task: string): string {
  return `${task}[]`
}

/** Reads once from its flow, for all items of a step, the values that they see. */
export class ItemsSeen {
  readonly #model: GraphModel
  /** By the id that a step gives its items when it begins; the oldest first. */
  readonly #known = new Map<string, Promise<Look>>()

  constructor(model: GraphModel) {
    this.#model = model
  }

  /** @param read reads the flow, unless it was read for these items before */
  async of(id: string, step: string, read: () => Promise<FlowMemory | null>): Promise<SeenValues> {
    const known = this.#known.get(id) ?? this.#read(id, step, read)
    return (await known)()
  }

  #read(id: string, step: string, read: () => Promise<FlowMemory | null>): Promise<Look> {
    const look = read().then((memory) => lookOf(this.#model, step, memory))
    this.#known.set(id, look)
    for (const oldest of this.#known.keys()) if (this.#known.size > KEPT_AT_MOST) this.#known.delete(oldest)
    // The next item reads again.
    look.catch(() => this.#known.delete(id))
    return look
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
  const input = (): unknown => inputOf(model, valueOf(memory.input) ?? undefined)
  const first = input()
  if (!(first instanceof Promise)) return () => lazily(outcomes.set('input', input))
  await first
  return async () => Object.assign(lazily(outcomes), { input: await input() })
}

/** An object that makes each of its values when it is read first. */
function lazily(values: ReadonlyMap<string, () => unknown>): Record<string, unknown> {
  const made: Record<string, unknown> = {}
  for (const [name, make] of values)
    Object.defineProperty(made, name, {
      enumerable: true,
      configurable: true,
      get: () => {
        const value = make()
        Object.defineProperty(made, name, { value, enumerable: true, writable: true, configurable: true })
        return value
      },
    })
  return made
}
