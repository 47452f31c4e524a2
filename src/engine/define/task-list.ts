import { SluiceError } from '../../base/errors.ts'
import type { LimitRegistry } from './limit-registry.ts'
import { type AnyTask, definitionOf, type TaskDefinition } from './task.ts'
import { type AnyWorkflow, workflowOf } from './workflow.ts'

/**
 * The tasks and workflows of an engine by name. Their limits join the engine's own.
 * @throws {SluiceError} `task.conflict`, `limit.conflict`
 */
export function listTasks(
  tasks: readonly AnyTask[],
  workflows: readonly AnyWorkflow[],
  registry: LimitRegistry,
): ReadonlyMap<string, TaskDefinition> {
  const byName = new Map<string, TaskDefinition>()
  for (const each of tasks) {
    const task = definitionOf(each)
    const known = byName.get(task.name)
    if (known && known !== task)
      throw new SluiceError('task.conflict', `Two tasks of this engine are named ${task.name}. Rename one of them.`)
    byName.set(task.name, task)
    for (const use of task.uses) registry.add(use, `task ${task.name}`)
  }
  for (const each of workflows) {
    const { name, task, uses, steps = [] } = workflowOf(each)
    const known = byName.get(name)
    if (known && known !== task)
      throw new SluiceError(
        'task.conflict',
        `Two tasks or workflows of this engine are named ${name}. Rename one of them.`,
      )
    for (const own of [task, ...steps]) byName.set(own.name, own)
    for (const use of uses) registry.add(use, `workflow ${name}`)
  }
  return byName
}

/**
 * The definition of a task that an engine lists.
 * @throws {SluiceError} `task.unknown`; `option.invalid` for an object that `task` did not make
 */
export function listed(tasks: ReadonlyMap<string, TaskDefinition>, task: AnyTask): TaskDefinition {
  const definition = definitionOf(task)
  if (tasks.get(definition.name) === definition) return definition
  throw new SluiceError(
    'task.unknown',
    `This engine does not list the task ${definition.name}. Add it to new Sluice({ tasks: [...] }).`,
  )
}
