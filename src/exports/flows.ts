/** The door for durable flows: workflows, machines and graphs, whose steps wait for budgets without holding a slot. */
import '../base/supported-node.ts'
export { workflow, type WorkflowOptions } from '../flows/workflow/workflow.ts'
export { again, type Again } from '../flows/workflow/again.ts'
export type { StepOptions, Steps } from '../flows/workflow/steps.ts'
export { graph } from '../flows/graph/graph.ts'
export { graphFromJson } from '../flows/graph/from-json.ts'
export type { Condition } from '../flows/graph/form.ts'
export type { Fault } from '../flows/graph/faults.ts'
export type {
  Failed,
  Graph,
  GraphDefinition,
  GraphEach,
  GraphOptions,
  GraphSteps,
  GraphStepOptions,
} from '../flows/graph/types.ts'
export { machine, type MachineOptions } from '../flows/machine/machine.ts'
export { child, type ArrivalOptions, type Child, type Move, type Settled, type To } from '../flows/machine/moves.ts'
export { FlowFailed } from '../engine/run/start-flows.ts'
export { StepFailed } from '../flows/shared/failures.ts'
export type { StepContext } from '../flows/shared/step-context.ts'
export type { KeyedByFunction, KeyedByPath, Path, StepLimit } from '../flows/shared/step-limits.ts'
export type { Flow, Schemas, Startable, StartOptions } from '../flows/shared/startable.ts'
export type { FlowAddress } from '../engine/define/workflow.ts'
