import { SluiceError } from '../../base/errors.ts'
import { toJsonText } from '../../base/json-value.ts'
import { didYouMean } from '../../base/nearest.ts'
import { ownNames, quote, show } from '../../base/options.ts'
import { isName } from '../../base/text.ts'
import type { FlowEnd, FlowEntry } from '../../engine/define/flow-entry.ts'
import type { WorkflowDefinition } from '../../engine/define/workflow.ts'
import type { RetryPolicy } from '../../jobs/retry-policy.ts'
import { checkSchema, type Schema, validate } from '../../jobs/schema.ts'
import { DEADLINE_STEP } from '../../jobs/workflow.ts'
import { endFlow } from './deadline.ts'
import { againLater } from './store-trouble.ts'

/** A signal's name is that of the step that awaits it. */
const LONGEST_SIGNAL = 200

/** Checks the schemas of signals, and their names: one that no code could await is refused. @throws {SluiceError} `option.invalid` */
export function checkSignals(signals: unknown, what: string): void {
  for (const name of schemasOf(signals, `signals of ${what}`))
    if (!isName(name, LONGEST_SIGNAL) || name.startsWith('~') || /#\d+$/.test(name))
      throw new SluiceError(
        'option.invalid',
        `signals of ${what}: the name ${quote(name)} is invalid. Expected 1 to ${LONGEST_SIGNAL} characters, without ~ at its beginning and # with a number at its end.`,
      )
}

/** Checks schemas by name, and returns the names. @throws {SluiceError} `option.invalid` */
export function schemasOf(schemas: unknown, what: string): string[] {
  const names = ownNames(schemas)
  if (names === null)
    throw new SluiceError('option.invalid', `${what} is invalid: ${show(schemas)}. Expected schemas by name.`)
  for (const each of names) checkSchema((schemas as Record<string, unknown>)[each], `${what}: ${each}`)
  return names
}

/** Checks an option that is code. @throws {SluiceError} `option.invalid` */
export function checkFunction(value: unknown, what: string): void {
  if (typeof value === 'function') return
  throw new SluiceError('option.invalid', `${what} is invalid: ${show(value)}. Expected a function.`)
}

/** Checks a signal against its schema, and returns its payload as JSON text. @throws {SluiceError} `input.invalid` */
export async function checkSignal(
  workflow: string,
  signals: Readonly<Record<string, Schema>>,
  name: unknown,
  payload: unknown,
): Promise<string> {
  const names = Object.keys(signals)
  if (typeof name !== 'string' || !names.includes(name))
    throw new SluiceError(
      'option.invalid',
      `The workflow ${workflow} has no signal ${quote(name)}${didYouMean(String(name), names)}Expected ${names.length === 0 ? 'none' : names.join(', ')}.`,
    )
  const what = `the signal ${name} of workflow ${workflow}`
  await validate(signals[name] as Schema, payload, what)
  return toJsonText(payload, what)
}

/** The parts of a definition that a door gives. */
export interface DefinitionParts extends Omit<WorkflowDefinition, 'task'> {
  readonly queue: string
  /** Of the step that a run grants, if its code names none. */
  readonly retry: RetryPolicy
  readonly enter: (entry: FlowEntry) => Promise<FlowEnd>
}

/** A definition as engines list it: its jobs are claimed like those of a task of its name. */
export function definitionOf({ queue, retry, enter, ...parts }: DefinitionParts): WorkflowDefinition {
  return {
    ...parts,
    task: {
      name: parts.name,
      schema: null,
      uses: [],
      fairness: { fairKey: null, share: undefined },
      queue,
      timeoutMs: null,
      retry,
      run: () => {
        throw new RangeError(`the workflow ${parts.name} has no handler`)
      },
      enter: (entry) => (entry.run.step === DEADLINE_STEP ? endFlow(entry) : enter(entry)).catch(againLater),
      onStarted: undefined,
      onCompleted: undefined,
      onError: undefined,
      onRetry: undefined,
    },
  }
}
