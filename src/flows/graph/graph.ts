import type { Duration } from '../../base/duration.ts'
import { checkOptions } from '../../base/options.ts'
import type { AnyTask } from '../../engine/define/task.ts'
import { checkSchema, type Schema } from '../../jobs/schema.ts'
import { define } from './definition.ts'
import { type Draft, finish, type Raw, termsOf, withStep, withUndo } from './draft.ts'
import { IN_CODE } from './form.ts'
import type { Over, StepCode } from './model.ts'
import type { Graph, GraphOptions } from './types.ts'

const OPTIONS = ['key', 'hold', 'onFailure', 'timeout', 'queue'] as const

/**
 * Begins a graph: steps with dependencies, known before it runs. Each method adds a step and answers the graph with it;
 * `output` finishes it. A step sees the flow's input and the outcomes of the steps that it comes `after`.
 * @param name lower case words with dots, such as `code.review`; at most 255 characters
 * @param input any Standard Schema: checked at the start, and again before each step
 * @throws {SluiceError} `option.invalid`; `graph.invalid` from `output`
 */
export function graph<I, O>(
  name: string,
  input: Schema<I, O>,
  options: GraphOptions<NoInfer<O>> = {},
): Graph<I, { readonly input: O }, {}> {
  checkSchema(input, `the schema of graph ${name}`)
  checkOptions(options, OPTIONS, `graph ${name}`, { aliases: { limits: 'hold', on_failure: 'onFailure' } })
  const draft: Draft = { name, schema: input as Schema<never, unknown>, options: options as Raw, steps: [] }
  return new GraphBuilder(draft, [], null) as unknown as Graph<I, { readonly input: O }, {}>
}

interface EachOf {
  readonly raw: Raw
  readonly over: Over<readonly unknown[]> | null
}

/** One builder serves for all that the types tell apart: a graph, its steps behind others, a step for each item. */
class GraphBuilder {
  readonly #draft: Draft
  readonly #after: readonly string[]
  readonly #each: EachOf | null

  constructor(draft: Draft, after: readonly string[], each: EachOf | null) {
    this.#draft = draft
    this.#after = after
    this.#each = each
  }

  after(...steps: readonly string[]): GraphBuilder {
    return new GraphBuilder(this.#draft, steps, null)
  }

  each(over: Over<readonly unknown[]> | string, options: Raw = {}): GraphBuilder {
    const isCode = typeof over === 'function'
    const raw = { ...termsOf(options, 'each').raw, each: isCode ? IN_CODE : over }
    return new GraphBuilder(this.#draft, this.#after, { raw, over: isCode ? over : null })
  }

  step(name: string, second: unknown, third?: StepCode['run']): GraphBuilder {
    const run = (third ?? second) as StepCode['run']
    const { raw, uses, when } = termsOf(third === undefined ? {} : second, `step ${name}`)
    return this.#with(name, { ...raw, code: typeof run === 'function' ? true : run }, { run, uses, when })
  }

  call(name: string, task: AnyTask, input: Over, options: unknown = {}): GraphBuilder {
    const { raw, uses, when } = termsOf(options, `step ${name}`)
    return this.#with(
      name,
      { ...raw, task: task.name, input: inputOf(input) },
      { task, uses, when, input: codeOf(input) },
    )
  }

  child(name: string, of: { readonly name: string }, input: Over): GraphBuilder {
    return this.#with(name, { child: of.name, input: inputOf(input) }, { child: of, input: codeOf(input) })
  }

  sleep(name: string, duration: Duration | Over<Date>): GraphBuilder {
    const isCode = typeof duration === 'function'
    return this.#with(name, { sleep: isCode ? IN_CODE : duration }, { sleep: isCode ? duration : null })
  }

  signal(name: string, payload: Schema, options: unknown = {}): GraphBuilder {
    checkSchema(payload, `the schema of signal ${name}`)
    return this.#with(name, { ...termsOf(options, `signal ${name}`).raw, signal: name }, { payload })
  }

  undo(step: string, options: unknown, run: StepCode['run']): GraphBuilder {
    return new GraphBuilder(withUndo(this.#draft, step, options, run), [], null)
  }

  output(of: Over): unknown {
    return define(finish(this.#draft, of))
  }

  #with(name: string, raw: Raw, code: Partial<StepCode>): GraphBuilder {
    const step = { ...raw, ...this.#each?.raw, ...(this.#after.length > 0 && { after: this.#after }) }
    return new GraphBuilder(withStep(this.#draft, name, step, { ...code, each: this.#each?.over ?? null }), [], null)
  }
}

/** An input may also be data with `{ $ref: path }` in it, as in JSON. */
function inputOf(input: unknown): unknown {
  return typeof input === 'function' ? IN_CODE : input
}

function codeOf(input: unknown): Over | null {
  return typeof input === 'function' ? (input as Over) : null
}
