import { ownNames } from '../../base/options.ts'
import type { Faults, Fields } from './faults.ts'

/** The part of JSON Schema that a definition may describe its input by. */
export interface InputShape {
  readonly type?: string
  readonly properties?: Readonly<Record<string, InputShape>>
  readonly required?: readonly string[]
  readonly items?: InputShape
}

const FIELDS = ['type', 'properties', 'required', 'items', 'description']
const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']

/** Reads the description of an input. */
export function readShape(faults: Faults, value: unknown, path: string = 'input'): InputShape {
  const fields = faults.fields(value, FIELDS, path)
  if (!fields) return {}
  const { type, properties, required, items } = fields
  if (type !== undefined && !TYPES.includes(type as string))
    faults.expected(`${path}.type`, type, `one of ${TYPES.join(', ')}`)
  const names = properties === undefined ? [] : ownNames(properties)
  if (names === null) faults.expected(`${path}.properties`, properties, 'an object of descriptions by name')
  for (const name of names ?? []) readShape(faults, (properties as Fields)[name], `${path}.properties.${name}`)
  if (required !== undefined && !(Array.isArray(required) && required.every((each) => names?.includes(each as string))))
    faults.expected(`${path}.required`, required, 'a list of names in properties')
  if (items !== undefined) readShape(faults, items, `${path}.items`)
  return fields
}

/** Whether a path may lead to a value of this shape. What is not described may hold anything. */
export function leadsInto(shape: InputShape, path: readonly string[]): boolean {
  const [name, ...rest] = path
  if (name === undefined) return true
  if (shape.items && /^\d+$/.test(name)) return leadsInto(shape.items, rest)
  if (shape.properties) {
    const inner = Object.hasOwn(shape.properties, name) ? shape.properties[name] : undefined
    return inner !== undefined && leadsInto(inner, rest)
  }
  return shape.type === undefined || shape.type === 'object' || shape.type === 'array'
}
