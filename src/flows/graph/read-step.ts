import type { JsonValue } from '../../base/json-value.ts'
import { quote } from '../../base/options.ts'
import { isName } from '../../base/text.ts'
import { isPath } from '../../policy/limits/partition-key.ts'
import { codeTask } from './code-task.ts'
import type { Faults, Fields } from './faults.ts'
import { type ActionForm, type Condition, IN_CODE, isInCode, type InCode, type StepForm } from './form.ts'
import { type Reading, readDuration, readPathOrCode, readTerms, TERMS } from './read-terms.ts'

const ACTIONS = ['task', 'code', 'child', 'sleep', 'signal'] as const
const FIELDS = [...ACTIONS, 'after', 'input', 'when', 'each', 'at_once', 'within', 'on_failure', 'undo', ...TERMS]
const UNDO = ['task', 'code', 'input', ...TERMS]
const OPS: readonly string[] = ['eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'in', 'exists']
/** The fields that only some actions have. */
const ONLY: Readonly<Record<string, readonly (typeof ACTIONS)[number][]>> = {
  input: ['task', 'child'],
  each: ['task', 'code', 'child'],
  at_once: ['task', 'code'],
  within: ['signal'],
  undo: ['task', 'code', 'child'],
  limits: ['task', 'code'],
  retry: ['task', 'code'],
  timeout: ['task', 'code'],
  priority: ['task', 'code'],
  queue: ['task', 'code'],
}
/** Items that run at once, at most. */
const ITEMS = 10_000

/** The parts of a definition that its steps are checked against. */
export interface StepReading extends Omit<Reading, 'seenPath'> {
  readonly graph: string
  /** Null: there is none of this name; undefined: unknown. */
  readonly hasTask: (name: string) => boolean | undefined
  readonly hasWorkflow: (name: string) => boolean | undefined
  /** Checks a path by the names that are seen. */
  readonly seenPath: (value: string, path: string, seen: readonly string[]) => void
}

/** Reads one step; null: it is not an object. */
export function readStep(reading: StepReading, name: string, value: unknown, path: string): StepForm | null {
  const { faults } = reading
  const fields = faults.fields(value, FIELDS, path)
  if (!fields) return null
  const after = readAfter(faults, fields['after'], `${path}.after`)
  const outer = ['input', ...after]
  const seen = fields['each'] === undefined ? outer : [...outer, 'item', 'index']
  const action = readAction(reading, name, fields, seen, path)
  const own = seenBy(reading, seen)
  const around = seenBy(reading, outer)
  const { each, at_once: atOnce, within, on_failure: onFailure } = fields
  if (atOnce !== undefined && !(Number.isInteger(atOnce) && (atOnce as number) >= 1 && (atOnce as number) <= ITEMS))
    faults.expected(`${path}.at_once`, atOnce, `a whole number from 1 to ${ITEMS}`)
  if (atOnce !== undefined && each === undefined) faults.expected(`${path}.at_once`, atOnce, 'a step with each')
  if (onFailure !== undefined && onFailure !== 'stop' && onFailure !== 'continue')
    faults.expected(`${path}.on_failure`, onFailure, "'stop' or 'continue'")
  const withinMs = within === undefined ? undefined : readDuration(faults, within, `${path}.within`)
  return {
    ...action,
    after,
    ...(fields['when'] !== undefined && { when: readCondition(around, fields['when'], `${path}.when`) }),
    ...(each !== undefined && { each: readPathOrCode(around, each, `${path}.each`) }),
    ...(atOnce !== undefined && { at_once: atOnce as number }),
    ...(withinMs !== undefined && { within: withinMs }),
    ...(onFailure === 'continue' && { on_failure: onFailure }),
    ...readTerms(own, fields, path),
    ...(fields['undo'] !== undefined && readUndo(reading, fields['undo'], name, `${path}.undo`)),
  }
}

function seenBy(reading: StepReading, seen: readonly string[]): Reading {
  return { ...reading, seenPath: (value, path) => reading.seenPath(value, path, seen) }
}

function readAfter(faults: Faults, value: unknown, path: string): string[] {
  if (value === undefined) return []
  if (!Array.isArray(value) || !value.every((each) => typeof each === 'string')) {
    faults.expected(path, value, "a list of steps, such as ['diff']")
    return []
  }
  return [...new Set(value)].toSorted()
}

function readAction(
  reading: StepReading,
  name: string,
  fields: Fields,
  seen: readonly string[],
  path: string,
): ActionForm {
  const { faults, graph } = reading
  const given = ACTIONS.filter((each) => fields[each] !== undefined)
  const [kind] = given
  if (kind === undefined || given.length > 1) {
    const what = given.length === 0 ? 'does nothing' : `has ${given.join(' and ')}`
    faults.add(path, 'graph.field.invalid', `${path} ${what}. Expected one of ${ACTIONS.join(', ')}.`)
    return {}
  }
  for (const [field, kinds] of Object.entries(ONLY))
    if (fields[field] !== undefined && !kinds.includes(kind))
      faults.add(
        `${path}.${field}`,
        'graph.field.invalid',
        `${path}.${field} does not belong to a step with ${kind}. Expected ${kinds.join(' or ')}.`,
      )
  const value = fields[kind]
  if (kind === 'code' || (kind === 'task' && value === codeTask(graph, name))) {
    if (kind === 'code' && value !== true) faults.expected(`${path}.code`, value, 'true')
    return { code: true }
  }
  if (kind === 'sleep') return { sleep: readSleep(reading, value, seen, `${path}.sleep`) }
  if (!isName(value)) {
    faults.expected(`${path}.${kind}`, value, `the name of a ${kind}`)
    return {}
  }
  if (kind === 'signal') return { signal: value }
  checkKnown(reading, kind, value, path)
  const { input } = fields
  return {
    ...(kind === 'task' ? { task: value } : { child: value }),
    ...(input !== undefined && { input: readRefs(reading, input, seen, `${path}.input`) }),
  }
}

function checkKnown(reading: StepReading, kind: 'task' | 'child', name: string, path: string): void {
  const known = kind === 'task' ? reading.hasTask(name) : reading.hasWorkflow(name)
  if (known !== false) return
  const what = kind === 'task' ? 'a task' : 'a workflow, machine or graph'
  reading.faults.add(
    `${path}.${kind}`,
    'task.unknown',
    `${path}.${kind} is unknown: ${quote(name)}. Expected the name of ${what} that the engine lists.`,
  )
}

function readSleep(
  reading: StepReading,
  value: unknown,
  seen: readonly string[],
  path: string,
): NonNullable<ActionForm['sleep']> {
  if (isInCode(value)) return IN_CODE
  if (typeof value === 'object' && value !== null)
    return readRefs(reading, value, seen, path) as unknown as { readonly $ref: string }
  return readDuration(reading.faults, value, path) ?? 0
}

function readCondition({ faults, seenPath }: Reading, value: unknown, path: string): Condition | InCode {
  if (isInCode(value)) return IN_CODE
  const fields = faults.fields(value, ['path', 'op', 'value'], path)
  if (!fields) return IN_CODE
  const { path: of, op, value: with_ } = fields
  if (isPath(of)) seenPath(of, `${path}.path`)
  else faults.expected(`${path}.path`, of, "a path such as 'diff.files'")
  if (!OPS.includes(op as string)) faults.expected(`${path}.op`, op, `one of ${OPS.join(', ')}`)
  if ((op === 'exists') !== (with_ === undefined))
    faults.expected(
      `${path}.value`,
      with_,
      op === 'exists' ? 'no value, since op is exists' : 'a value to compare with',
    )
  if (op === 'in' && !Array.isArray(with_)) faults.expected(`${path}.value`, with_, 'a list, since op is in')
  return { path: of as string, op: op as Condition['op'], ...(with_ !== undefined && { value: with_ as JsonValue }) }
}

function readUndo(
  reading: StepReading,
  value: unknown,
  name: string,
  path: string,
): { undo: NonNullable<StepForm['undo']> } | undefined {
  const fields = reading.faults.fields(value, UNDO, path)
  if (!fields) return undefined
  const seen = ['input', name]
  const { code, task, input } = readAction(reading, `${name}/undo`, fields, seen, path)
  const action = { ...(code && { code }), ...(task !== undefined && { task }), ...(input !== undefined && { input }) }
  return { undo: { ...action, ...readTerms(seenBy(reading, seen), fields, path) } }
}

/** Reads JSON in which `{ "$ref": path }` stands for a value. */
export function readRefs(
  reading: StepReading,
  value: unknown,
  seen: readonly string[],
  path: string,
): JsonValue | InCode {
  if (isInCode(value)) return IN_CODE
  checkRefs(reading, value, seen, path)
  return value as JsonValue
}

function checkRefs(reading: StepReading, value: unknown, seen: readonly string[], path: string): void {
  if (typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) return value.forEach((each, i) => checkRefs(reading, each, seen, `${path}[${i}]`))
  const ref = (value as Fields)['$ref']
  if (ref === undefined) {
    for (const [name, each] of Object.entries(value)) checkRefs(reading, each, seen, `${path}.${name}`)
    return
  }
  if (Object.keys(value).length > 1)
    reading.faults.expected(path, value, 'nothing beside $ref, which stands for the whole value')
  if (isPath(ref)) reading.seenPath(ref, `${path}.$ref`, seen)
  else reading.faults.expected(`${path}.$ref`, ref, "a path such as 'input.pr'")
}
