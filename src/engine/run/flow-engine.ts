import type { Random } from '../../base/random.ts'
import type { FlowEngine, ListedNames } from '../define/flow-entry.ts'
import type { TaskDefinition } from '../define/task.ts'
import type { WorkflowDefinition } from '../define/workflow.ts'
import { type EnqueueContext, prepare } from './enqueue.ts'

/** The parts of an engine that its flows need. */
export interface FlowEngineParts {
  readonly calls: EnqueueContext
  readonly random: Random
  readonly tasks: ReadonlyMap<string, TaskDefinition>
  readonly workflows: ReadonlyMap<string, WorkflowDefinition>
  readonly storeLimits: FlowEngine['storeLimits']
}

/** The engine as the code of its flows sees it. @throws {SluiceError} `graph.invalid` for names that it does not list */
export function flowEngineOf({ calls, random, tasks, workflows, storeLimits }: FlowEngineParts): FlowEngine {
  const listed: ListedNames = {
    tasks: [...tasks.keys()],
    workflows: [...workflows.keys()],
    call: (name, input, options) => {
      const task = tasks.get(name)
      return task ? prepare(calls, task, input, options) : null
    },
    start: (name, input, options) => workflows.get(name)?.prepare(engine, input, options) ?? null,
  }
  const engine: FlowEngine = { ...calls, random, listed, storeLimits }
  for (const each of workflows.values()) each.check?.(engine)
  return engine
}
