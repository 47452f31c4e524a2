import type { Context, TaskDefinition } from '../../engine/define/task.ts'
import type { RemembersFlow } from '../../engine/define/flow-entry.ts'
import { type StepContext, stepKey } from '../shared/step-context.ts'
import { isStoreTrouble, REST_MS } from '../shared/store-trouble.ts'
import type { TermsForm } from './form.ts'
import type { GraphModel, StepCode } from './model.ts'
import { codeTask } from './code-task.ts'
import { inputOf } from './input.ts'
import { ItemsSeen, itemsTask } from './items-seen.ts'
import type { SeenValues } from './seen.ts'
import { retryOf } from './terms.ts'

/** The input of a job of a step, as any worker gets it. */
interface StepInput {
  readonly input?: unknown
  readonly index?: number
  readonly flow: {
    readonly id: string
    readonly key: string | null
    readonly step: string
    readonly wake?: true
    /** The rest of what it sees is with its flow; all items of this id see the same. */
    readonly seen?: string
  }
}

/**
 * The code of a graph as tasks, one for each step: `code.review/llm`. A worker without one of them leaves its jobs to
 * others, uncharged. So steps of flows of an older graph wait for a worker that still has their code.
 */
export function stepTasks(model: GraphModel): TaskDefinition[] {
  const { form, steps, output } = model
  const shared = new ItemsSeen(model)
  const tasks = Object.entries(form.steps).flatMap(([name, step]) => {
    const code = steps.get(name)
    if (!code) return []
    const undo = code.undo && step.undo ? [taskOf(model, `${name}/undo`, step.undo, code.undo, shared)] : []
    const task = taskOf(model, name, step, code, shared)
    return [task, ...(step.each ? [{ ...task, name: itemsTask(task.name) }] : []), ...undo]
  })
  return output ? [...tasks, taskOf(model, '', {}, { run: null, uses: [] }, shared)] : tasks
}

function taskOf(
  model: GraphModel,
  step: string,
  { retry, timeout, queue: own }: TermsForm,
  { run, uses }: Pick<StepCode, 'run' | 'uses'>,
  shared: ItemsSeen,
): TaskDefinition {
  return {
    name: codeTask(model.form.name, step),
    schema: null,
    uses,
    fairness: { fairKey: null, share: undefined },
    queue: own ?? model.queue,
    timeoutMs: timeout ?? null,
    retry: retryOf(retry),
    run: async (given: never, ctx: Context<never> & Partial<RemembersFlow>): Promise<unknown> => {
      const { flow, ...seen } = given as StepInput
      // The flow only waited for a worker that has this code.
      if (flow.wake || !run) return null
      const context = contextOf(flow, seen.index, ctx)
      if (flow.seen === undefined)
        return run({ ...seen, input: await inputOf(model, seen.input ?? undefined) } as never, context)
      let rest: SeenValues
      try {
        rest = await shared.of(flow.seen, flow.step, async () => ctx.flowMemory?.() ?? null)
      } catch (error) {
        if (isStoreTrouble(error)) return ctx.snooze(REST_MS)
        throw error
      }
      return run(Object.assign(rest, seen) as never, context)
    },
    onStarted: undefined,
    onCompleted: undefined,
    onError: undefined,
    onRetry: undefined,
  }
}

function contextOf({ id, key, step }: StepInput['flow'], index: number | undefined, ctx: Context<never>): StepContext {
  return {
    key: stepKey(id, 0, index === undefined ? step : `${step}#${index}`),
    flow: { id, key },
    step,
    attempt: ctx.attempt,
    get signal(): AbortSignal {
      return ctx.signal
    },
    logger: ctx.logger,
    charge: (limit, units): void => ctx.charge(limit, units),
    observe: (response): void => ctx.observe(response),
  }
}
