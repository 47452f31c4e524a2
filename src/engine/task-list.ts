import { SluiceError } from '../base/errors.ts'
import type { LimitRegistry } from './limit-registry.ts'
import { type AnyTask, definitionOf, type TaskDefinition } from './task.ts'

/** The tasks of an engine by their names; their limits are added to its own. @throws task.conflict, limit.conflict */
export function listTasks(tasks: readonly AnyTask[], registry: LimitRegistry): ReadonlyMap<string, TaskDefinition> {
  const listed = new Map<string, TaskDefinition>()
  for (const each of tasks) {
    const task = definitionOf(each)
    const known = listed.get(task.name)
    if (known && known !== task)
      throw new SluiceError(
        'task.conflict',
        `Two tasks of this engine are named ${task.name}. Give one of them another name.`,
      )
    listed.set(task.name, task)
    for (const use of task.uses) registry.add(use, `task ${task.name}`)
  }
  return listed
}
