import { SluiceError } from '../base/errors.ts'
import { type AnyTask, definitionOf, type TaskDefinition } from './task.ts'

/** The tasks of one engine, by name. */
export class TaskList {
  readonly byName: Map<string, TaskDefinition> = new Map()

  /** @throws task.conflict */
  add(task: TaskDefinition): void {
    const known = this.byName.get(task.name)
    if (known && known !== task)
      throw new SluiceError(
        'task.conflict',
        `Two tasks of this engine are named ${task.name}. Give one of them another name.`,
      )
    this.byName.set(task.name, task)
  }

  /** What a task that the engine lists was told. @throws task.unknown; option.invalid for what `task` did not make */
  definitionOf(task: AnyTask): TaskDefinition {
    const definition = definitionOf(task)
    if (this.byName.get(definition.name) === definition) return definition
    throw new SluiceError(
      'task.unknown',
      `This engine does not list the task ${definition.name}. Add it to new Sluice({ tasks: [...] }).`,
    )
  }
}
