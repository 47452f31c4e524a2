import { SluiceError } from '../../base/errors.ts'
import { checkQueue } from '../../engine/define/call-options.ts'
import { jsonFaults, pathText, within } from '../../base/json-text.ts'
import { ownNames, quote } from '../../base/options.ts'
import { isTaskName } from '../../base/text.ts'
import { didYouMean } from '../../base/nearest.ts'
import { limit as defineLimit, type Limit, useOf } from '../../policy/limits/define.ts'
import type { LimitPolicy } from '../../policy/limits/limit.ts'
import type { Policy } from '../../policy/limits/policy.ts'
import { type Fault, Faults, type Fields } from './faults.ts'
import type { GraphForm, StepForm } from './form.ts'
import { readDuration, readLimits, readPathOrCode } from './read-terms.ts'
import { readRefs, readStep, type StepReading } from './read-step.ts'
import { type InputShape, leadsInto, readShape } from './input-shape.ts'

const FIELDS = ['name', 'input', 'key', 'hold', 'on_failure', 'timeout', 'queue', 'limits', 'steps', 'output']
const STEP_NAME = /^[A-Za-z][A-Za-z0-9_-]*$/
/** The names that a step sees beside other steps. */
const RESERVED = ['input', 'item', 'index', 'flow']
/** Steps of a graph at most. */
const STEPS_AT_MOST = 1_000

/** The engine that a definition is for, as far as the reader knows it. Absent parts are not checked. */
export interface GraphSurroundings {
  readonly tasks?: readonly string[]
  /** Names of workflows, machines and graphs. */
  readonly workflows?: readonly string[]
  /** Policies beside those of the definition; null: there is no such limit; undefined: unknown. */
  readonly policy?: (limit: string) => LimitPolicy | null | undefined
}

/** A definition that was read. */
export interface GraphRead {
  /** Null: it has no valid one. */
  readonly name: string | null
  /** Null: it has faults. */
  readonly form: GraphForm | null
  readonly faults: readonly Fault[]
  /** The limits that it defines. */
  readonly limits: readonly Limit[]
  /** The shape of the input, as far as the definition says it. */
  readonly shape: InputShape | null
}

/**
 * Reads a definition, as JSON text or as the value of one, and finds every fault of it.
 * @param around the tasks and limits of the engine; what is left out is not checked
 */
export function readGraph(definition: unknown, around: GraphSurroundings = {}): GraphRead {
  const faults = new Faults()
  const json = typeof definition === 'string' ? parseDefinition(definition, faults) : definition
  const nothing = { name: null, form: null, limits: [], shape: null }
  if (json === undefined) return { ...nothing, faults: faults.list }
  const fields = faults.fields(json, FIELDS, '')
  if (!fields) return { ...nothing, faults: faults.list }
  const name = readName(faults, fields['name'])
  const limits = readPolicies(faults, fields['limits'])
  const shape = fields['input'] === undefined ? null : readShape(faults, fields['input'])
  const reading: StepReading = {
    faults,
    graph: name,
    policy: (limit) => limits.get(limit)?.policy ?? around.policy?.(limit),
    hasTask: (task) => around.tasks?.includes(task),
    hasWorkflow: (workflow) => (workflow === name ? true : around.workflows?.includes(workflow)),
    seenPath: (value, path, seen) => checkPath(faults, shape, value, path, seen),
  }
  const steps = readSteps(reading, fields['steps'])
  const form = { name, ...readTop(reading, fields, Object.keys(steps)), steps: inOrder(faults, steps) }
  return {
    name: name || null,
    form: faults.list.length === 0 ? form : null,
    faults: faults.list,
    limits: [...limits.values()].map(({ limit }) => limit),
    shape,
  }
}

function readName(faults: Faults, name: unknown): string {
  if (isTaskName(name)) return name
  faults.add(
    'name',
    'graph.name.invalid',
    `name is invalid: ${JSON.stringify(name) ?? 'it is missing'}. Expected lower case words with dots between them, such as code.review.`,
  )
  return ''
}

function readPolicies(faults: Faults, value: unknown): Map<string, { limit: Limit; policy: LimitPolicy }> {
  const found = new Map<string, { limit: Limit; policy: LimitPolicy }>()
  if (value === undefined) return found
  for (const name of ownNames(value) ?? (faults.expected('limits', value, 'an object of policies by name'), [])) {
    const path = within('limits', name)
    try {
      const limit = defineLimit(name, (value as Fields)[name] as Policy)
      found.set(name, { limit, policy: useOf(limit).policy })
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error
      const field =
        /^limit .*?: ([a-zA-Z]+)(?: of limit)? /.exec(error.message)?.[1] ??
        /^([a-zA-Z]+) of limit /.exec(error.message)?.[1]
      const own = ownNames((value as Fields)[name]) ?? []
      faults.add(field !== undefined && own.includes(field) ? within(path, field) : path, error.code, error.message)
    }
  }
  return found
}

function readTop(reading: StepReading, fields: Fields, steps: readonly string[]): Omit<GraphForm, 'name' | 'steps'> {
  const { faults } = reading
  const { key, hold, on_failure: onFailure, timeout, queue, output } = fields
  const ofInput = {
    ...reading,
    seenPath: (value: string, path: string): void => reading.seenPath(value, path, ['input']),
  }
  if (onFailure !== undefined && onFailure !== 'finish' && onFailure !== 'fast')
    faults.expected('on_failure', onFailure, "'finish' or 'fast'")
  const timeoutMs = timeout === undefined ? undefined : readDuration(faults, timeout, 'timeout')
  const named = queue === undefined ? undefined : faults.caught('queue', () => checkQueue(queue as string))
  // A text would stand for itself. An author who writes the name of a step means its output.
  if (typeof output === 'string' && steps.includes(output))
    faults.expected('output', output, `{ "$ref": "${output}" } for what that step came to, or another value`)
  const held = hold === undefined ? [] : readLimits(ofInput, hold, 'hold')
  return {
    ...(key !== undefined && { key: readPathOrCode(ofInput, key, 'key') }),
    ...(held.length > 0 && { hold: held }),
    ...(onFailure === 'fast' && { on_failure: onFailure }),
    ...(timeoutMs !== undefined && { timeout: timeoutMs }),
    ...(named !== undefined && { queue: named }),
    ...(output !== undefined && { output: readRefs(reading, output, ['input', ...steps], 'output') }),
  }
}

function readSteps(reading: StepReading, value: unknown): Record<string, StepForm> {
  const { faults } = reading
  const names = ownNames(value)
  if (names === null) faults.expected('steps', value, 'an object of steps by name')
  else if (names.length === 0) faults.add('steps', 'graph.empty', 'The graph has no steps. Expected at least one.')
  else if (names.length > STEPS_AT_MOST)
    faults.add('steps', 'graph.empty', `The graph has ${names.length} steps. Expected at most ${STEPS_AT_MOST}.`)
  const steps: Record<string, StepForm> = {}
  for (const name of names ?? []) {
    const path = within('steps', name)
    checkStepName(faults, name, path)
    const step = readStep(reading, name, (value as Fields)[name], path)
    if (step) steps[name] = step
  }
  for (const [name, { after }] of Object.entries(steps))
    for (const each of after)
      if (!Object.hasOwn(steps, each) && !names?.includes(each))
        faults.add(
          `${within('steps', name)}.after`,
          'graph.step.unknown',
          `${within('steps', name)}.after names the step ${quote(each)}, which does not exist${didYouMean(each, Object.keys(steps))}Expected a step of this graph.`,
        )
  return steps
}

function checkStepName(faults: Faults, name: string, path: string): void {
  if (RESERVED.includes(name))
    faults.add(path, 'graph.name.twice', `${path}: ${name} is what steps see beside the others. Rename the step.`)
  else if (name.length > 200 || !STEP_NAME.test(name))
    faults.add(
      path,
      'graph.name.invalid',
      `${path}: the name of a step is invalid. Expected a letter, then letters, digits, - and _, at most 200.`,
    )
}

/** Orders each step behind those that it comes after, otherwise as given. Steps in a circle are a fault. */
function inOrder(faults: Faults, steps: Readonly<Record<string, StepForm>>): Record<string, StepForm> {
  const ordered: Record<string, StepForm> = {}
  let left = Object.keys(steps)
  while (left.length > 0) {
    const ready = left.filter((name) =>
      steps[name]?.after.every((each) => Object.hasOwn(ordered, each) || !Object.hasOwn(steps, each)),
    )
    if (ready.length === 0) {
      const circle = circleIn(steps, left)
      faults.add(
        `${within('steps', circle[0] ?? '')}.after`,
        'graph.cycle',
        `The steps ${circle.join(' → ')} wait for each other in a circle. Remove one of the edges.`,
      )
      return ordered
    }
    for (const name of ready) ordered[name] = steps[name] as StepForm
    left = left.filter((name) => !Object.hasOwn(ordered, name))
  }
  return ordered
}

/** One circle among steps that each come after another of them. */
function circleIn(steps: Readonly<Record<string, StepForm>>, left: readonly string[]): string[] {
  const path: string[] = []
  let at = left[0] ?? ''
  while (!path.includes(at)) {
    path.push(at)
    at = steps[at]?.after.find((each) => left.includes(each)) ?? at
  }
  return [...path.slice(path.indexOf(at)), at].toReversed()
}

function checkPath(
  faults: Faults,
  shape: InputShape | null,
  value: string,
  path: string,
  seen: readonly string[],
): void {
  const [head = '', ...rest] = value.split('.')
  const wrong = (why: string): void =>
    faults.add(path, 'graph.path.unknown', `${path} is invalid: ${quote(value)} ${why}.`)
  if (!seen.includes(head))
    wrong(
      `begins with what is not seen here${didYouMean(head, seen)}Expected a path that begins with ${seen.join(', ')}`,
    )
  else if (head === 'input' && shape !== null && !leadsInto(shape, rest))
    wrong('is not in the input, as the definition describes it')
}

/** Parses the JSON text of a definition. Undefined: the text is not JSON. */
function parseDefinition(text: string, faults: Faults): unknown {
  const { brokenAt, repeated } = jsonFaults(text)
  if (brokenAt !== null) {
    faults.add('', 'graph.json.invalid', `The definition is not JSON from ${brokenAt} on.`)
    return undefined
  }
  for (const path of repeated.map(pathText))
    faults.add(path, 'graph.name.twice', `${path} is there twice. Expected each name once.`)
  return JSON.parse(text)
}
