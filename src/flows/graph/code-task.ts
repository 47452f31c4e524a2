/** The name under which the code of a step waits for a worker that has it. No task can have such a name. */
export function codeTask(graph: string, step: string): string {
  return `${graph}/${step}`
}
