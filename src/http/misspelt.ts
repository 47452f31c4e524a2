import type { z } from 'zod'
import { nearest } from '../base/nearest.ts'

/** A refused member of a request, its path and the reason. */
export interface Misspelt {
  readonly path: readonly (string | number)[]
  readonly message: string
}

/** The parts of a schema that the check reads. */
interface Def {
  readonly type: string
  readonly shape?: Readonly<Record<string, z.ZodType>>
  readonly catchall?: z.ZodType
  readonly element?: z.ZodType
  readonly innerType?: z.ZodType
  readonly valueType?: z.ZodType
  readonly in?: z.ZodType
  readonly out?: z.ZodType
  readonly left?: z.ZodType
  readonly right?: z.ZodType
  readonly options?: readonly z.ZodType[]
  readonly discriminator?: string
}

/** A shorter name may be another word instead of a slip. */
const SHORTEST = 5
const LONG = 7

/**
 * Finds the first member of a value that its schema would drop silently: a near miss of a known name, an unknown name
 * if the schema is strict or `all` is set, and `__proto__`, which parsers drop. Elsewhere names that begin with `x_`
 * belong to the sender.
 */
export function misspelt(schema: z.ZodType, value: unknown, all = false): Misspelt | null {
  return find(schema, value, all, [])
}

function find(schema: z.ZodType, value: unknown, all: boolean, path: readonly (string | number)[]): Misspelt | null {
  if (typeof value !== 'object' || value === null) return null
  const def = schema._zod.def as unknown as Def
  const into = (inner: z.ZodType | undefined): Misspelt | null => (inner ? find(inner, value, all, path) : null)
  if (def.innerType) return into(def.innerType)
  if (def.type === 'pipe') return into(def.in && typeOf(def.in) === 'transform' ? def.out : def.in)
  if (def.options) return into(chosen(def, value))
  if (Array.isArray(value)) return def.element ? inList(def.element, value, all, path) : null
  if (def.type === 'record') return protoIn(value, path) ?? inRecord(def.valueType, value, all, path)
  const shape = shapeOf(schema)
  return shape ? inObject(shape, isStrict(def) || all, value as Readonly<Record<string, unknown>>, all, path) : null
}

function inObject(
  shape: Readonly<Record<string, z.ZodType>>,
  strict: boolean,
  value: Readonly<Record<string, unknown>>,
  all: boolean,
  path: readonly (string | number)[],
): Misspelt | null {
  const known = Object.keys(shape)
  for (const name of Object.keys(value)) {
    const inner = Object.hasOwn(shape, name) ? shape[name] : undefined
    const found = inner
      ? find(inner, value[name], all, [...path, name])
      : (protoNamed(name, path) ?? unknownNamed(name, known, strict, path))
    if (found) return found
  }
  return null
}

function unknownNamed(
  name: string,
  known: readonly string[],
  strict: boolean,
  path: readonly (string | number)[],
): Misspelt | null {
  const near = strict ? nearest(name, known) : slipOf(name, known)
  if (near === null && !strict) return null
  const hint = near === null ? '. ' : `; did you mean ${near}? `
  return { path: [...path, name], message: `is unknown${hint}Expected ${known.join(', ') || 'none'}.` }
}

/**
 * The known name that an unknown one misspells: the same without its unit or `_id`, one letter off, or two in a long
 * name.
 */
function slipOf(name: string, known: readonly string[]): string | null {
  if (name.startsWith('x_')) return null
  const near = (letters: number, shortest: number): string | null =>
    nearest(
      name,
      known.filter((each) => each.length >= shortest),
      letters,
    )
  const bare = (text: string): string => text.replace(/_ms$/, '')
  const cut = known.find((each) => each === `${name}_id` || bare(each) === bare(name))
  return cut ?? near(1, SHORTEST) ?? near(2, LONG)
}

function inList(
  element: z.ZodType,
  values: readonly unknown[],
  all: boolean,
  path: readonly (string | number)[],
): Misspelt | null {
  for (const [i, each] of values.entries()) {
    const found = find(element, each, all, [...path, i])
    if (found) return found
  }
  return null
}

function inRecord(
  element: z.ZodType | undefined,
  value: object,
  all: boolean,
  path: readonly (string | number)[],
): Misspelt | null {
  if (!element) return null
  for (const [name, each] of Object.entries(value)) {
    const found = find(element, each, all, [...path, name])
    if (found) return found
  }
  return null
}

function protoIn(value: object, path: readonly (string | number)[]): Misspelt | null {
  return Object.hasOwn(value, '__proto__') ? protoNamed('__proto__', path) : null
}

function protoNamed(name: string, path: readonly (string | number)[]): Misspelt | null {
  return name === '__proto__' ? { path: [...path, name], message: 'is a name that cannot be stored' } : null
}

/** The schema of a union that fits a value. */
function chosen({ options = [], discriminator }: Def, value: object): z.ZodType | undefined {
  if (discriminator === undefined) {
    const wanted = Array.isArray(value) ? 'array' : 'object'
    return options.find((each) => typeOf(each) === wanted || (wanted === 'object' && typeOf(each) === 'record'))
  }
  const kind = (value as Readonly<Record<string, unknown>>)[discriminator]
  return options.find((each) => shapeOf(each)?.[discriminator]?.safeParse(kind).success)
}

function shapeOf(schema: z.ZodType): Readonly<Record<string, z.ZodType>> | undefined {
  const { shape, left, right } = schema._zod.def as unknown as Def
  return left && right ? { ...shapeOf(left), ...shapeOf(right) } : shape
}

function typeOf(schema: z.ZodType): string {
  return schema._zod.def.type
}

function isStrict({ catchall }: Def): boolean {
  return catchall !== undefined && typeOf(catchall) === 'never'
}
