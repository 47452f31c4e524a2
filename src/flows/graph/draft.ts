import { SluiceError } from '../../base/errors.ts'
import { ownNames, show } from '../../base/options.ts'
import { isLimitUse, useOf, type UseSpec } from '../../policy/limits/define.ts'
import { readPath } from '../../policy/limits/partition-key.ts'
import { type StepLimit, stepUses } from '../shared/step-limits.ts'
import type { Schema } from '../../jobs/schema.ts'
import type { Fault } from './faults.ts'
import { graphInvalid } from './graph-invalid.ts'
import { hashOf, IN_CODE } from './form.ts'
import type { GraphModel, Over, StepCode } from './model.ts'
import { readGraph } from './read-graph.ts'

/** A part of a definition, as it would be in JSON. Nothing of it is checked yet. */
export type Raw = Record<string, unknown>

/** A graph that is being built. */
export interface Draft {
  readonly name: string
  readonly schema: Schema<never, unknown>
  readonly options: Raw
  /** In the order of the calls; a name may be there twice, which `finish` refuses. */
  readonly steps: readonly (readonly [string, Raw, StepCode])[]
}

const NO_CODE: StepCode = {
  run: null,
  uses: [],
  when: null,
  each: null,
  input: null,
  sleep: null,
  task: null,
  child: null,
  payload: null,
  undo: null,
}
/** The names of options, where JSON has others. */
const NAMED: Readonly<Record<string, string>> = { onFailure: 'on_failure', atOnce: 'at_once' }

/** Adds a step to a draft. */
export function withStep(draft: Draft, name: string, raw: Raw, code: Partial<StepCode>): Draft {
  return { ...draft, steps: [...draft.steps, [name, raw, { ...NO_CODE, ...code }]] }
}

/** Adds what undoes a step. */
export function withUndo(draft: Draft, name: string, options: unknown, run: StepCode['run']): Draft {
  const { raw, uses } = termsOf(options, `undo of step ${name}`)
  if (!draft.steps.some(([each]) => each === name))
    throw new SluiceError('graph.step.unknown', `The graph ${draft.name} has no step ${show(name)} to undo.`)
  return {
    ...draft,
    steps: draft.steps.map((step) =>
      step[0] === name
        ? [name, { ...step[1], undo: { ...raw, code: true } }, { ...step[2], undo: { run, uses } }]
        : step,
    ),
  }
}

/** Splits the options of a step into what JSON can say of them, and code. */
export function termsOf(
  options: unknown,
  what: string,
): { raw: Raw; uses: UseSpec<never>[]; when: Over<boolean> | null } {
  const names = ownNames(options)
  if (names === null)
    throw new SluiceError('option.invalid', `The options of ${what} are invalid: ${show(options)}. Expected an object.`)
  const raw: Raw = {}
  const given = options as Raw
  for (const name of names) if (given[name] !== undefined) raw[NAMED[name] ?? name] = given[name]
  const when = typeof raw['when'] === 'function' ? (raw['when'] as Over<boolean>) : null
  if (when) raw['when'] = IN_CODE
  const { limits } = raw
  if (!Array.isArray(limits)) return { raw, uses: [], when }
  const uses: UseSpec<never>[] = []
  raw['limits'] = limits.map((each: unknown) => {
    const use = specOf(each)
    if (!use) return each
    uses.push(use)
    return formOf(use, each)
  })
  return { raw, uses, when }
}

/** The use that an entry of a step's limits is; null: it is none. */
function specOf(entry: unknown): UseSpec<never> | null {
  if (isLimitUse(entry)) return useOf(entry)
  const { limit, by, weight } = (entry ?? {}) as Raw
  if (!isLimitUse(limit) || (typeof by !== 'string' && typeof by !== 'function')) return null
  if (typeof by === 'function') {
    const [spec] = stepUses([entry as StepLimit<never>], 'a step')
    return spec ?? null
  }
  const units = typeof weight === 'string' ? (seen: unknown): number => readPath(seen, weight) as number : weight
  return { ...useOf(limit), key: { kind: 'path', path: by }, weight: units as number | undefined }
}

function formOf({ limit, key, weight }: UseSpec<never>, entry: unknown): Raw {
  // A limit as data is not a use: its own fields are what JSON says.
  const isData = !isLimitUse(entry) && typeof (entry as Raw)['by'] !== 'function'
  const { limit: _, ...data } = isData ? (entry as Raw) : { limit: null }
  const byOf = { none: {}, fn: { by: IN_CODE }, path: {}, value: {} }[key.kind]
  return {
    limit,
    ...byOf,
    ...(key.kind === 'path' && { by: key.path }),
    ...(key.kind === 'value' && { key: String(key.value) }),
    ...(weight !== undefined && { weight: typeof weight === 'function' ? IN_CODE : weight }),
    ...data,
  }
}

/** Checks a draft as a whole. @throws {SluiceError} `graph.invalid` */
export function finish(draft: Draft, output: Over): GraphModel {
  const { name, schema, options, steps } = draft
  const { raw, uses } = termsOf({ limits: options['hold'], ...options, hold: undefined }, `graph ${name}`)
  const { limits: held, key, ...top } = raw
  const all = [...uses, ...steps.flatMap(([, , { uses: own, undo }]) => [...own, ...(undo?.uses ?? [])])]
  const policies = new Map(all.map(({ limit, policy }) => [limit, policy]))
  const { form, faults } = readGraph(
    {
      ...top,
      name,
      ...(key !== undefined && { key: typeof key === 'function' ? IN_CODE : key }),
      ...(held !== undefined && { hold: Array.isArray(held) ? (held as Raw[]).map(ofInput) : held }),
      steps: Object.fromEntries(steps.map(([step, rawStep]) => [step, rawStep])),
      output: typeof output === 'function' ? IN_CODE : output,
    },
    { policy: (limit) => policies.get(limit) ?? null },
  )
  const twice = steps.map(([step]) => step).filter((step, i, names) => names.indexOf(step) < i)
  const found: Fault[] = [
    ...faults,
    ...[...new Set(twice)].map((step) => ({
      path: `steps.${step}`,
      code: 'graph.name.twice' as const,
      message: `steps.${step} is there twice. Expected each name once.`,
    })),
  ]
  if (!form || found.length > 0) throw graphInvalid(name, found)
  return {
    form,
    hash: hashOf(form),
    queue: form.queue ?? 'default',
    isJson: false,
    schema,
    shape: null,
    steps: new Map(steps.map(([step, , code]) => [step, code])),
    key: typeof key === 'function' ? (key as Over<string>) : null,
    hold: stepUses(options['hold'] as readonly StepLimit<never>[] | undefined, `hold of graph ${name}`),
    output: typeof output === 'function' ? output : null,
    limits: all,
  }
}

/** The paths of a held limit are of the input alone. */
function ofInput(use: Raw): Raw {
  const { by, weight } = use
  return {
    ...use,
    ...(typeof by === 'string' && { by: `input.${by}` }),
    ...(typeof weight === 'string' && { weight: `input.${weight}` }),
  }
}
