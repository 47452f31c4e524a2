import { SluiceError } from '../../base/errors.ts'
import type { FlowEngine } from '../../engine/define/flow-entry.ts'
import { type AnyWorkflow, type FlowStartOptions, workflowOf } from '../../engine/define/workflow.ts'
import type { NewWorkflow } from '../../jobs/workflow.ts'

/** The options of a flow that a flow starts. */
export type ChildOptions = Omit<FlowStartOptions, 'tx'>

/** Prepares a flow that a flow starts. @throws {SluiceError} `option.invalid`, and the codes of `start` */
export async function prepareChild(
  engine: FlowEngine,
  of: AnyWorkflow,
  input: unknown,
  options: ChildOptions,
): Promise<NewWorkflow> {
  // Callers without types may pass it.
  if ((options as FlowStartOptions | null)?.tx !== undefined)
    throw new SluiceError(
      'option.invalid',
      `A start of ${of.name} by a flow has tx. Omit it: the child is stored in the transaction in which its flow moves.`,
    )
  return workflowOf(of).prepare(engine, input, options)
}
