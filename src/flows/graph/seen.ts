import type { JsonValue } from '../../base/json-value.ts'
import { readPath } from '../../policy/limits/partition-key.ts'
import type { Condition } from './form.ts'

/** The values that a step sees: the run's input, results by step, and `item` and `index` of an item. */
export type SeenValues = Readonly<Record<string, unknown>>

/** JSON with each `{ "$ref": path }` replaced by the value at that path. A value that is not there is left out, as JSON does. */
export function fillRefs(value: JsonValue, seen: SeenValues): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (isList(value)) return value.map((each) => fillRefs(each, seen))
  const { $ref: ref } = value
  if (typeof ref === 'string') return readPath(seen, ref)
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, fillRefs(each, seen)]))
}

/** Array.isArray tells nothing of a read-only list. */
function isList(value: object): value is readonly JsonValue[] {
  return Array.isArray(value)
}

/** Whether a condition holds. Values of different types are neither less nor greater, and only equal themselves. */
export function holds({ path, op, value }: Condition, seen: SeenValues): boolean {
  const found = readPath(seen, path)
  if (op === 'exists') return found !== undefined && found !== null
  if (op === 'in') return Array.isArray(value) && value.some((each) => isEqual(found, each))
  if (op === 'eq' || op === 'ne') return isEqual(found, value) === (op === 'eq')
  const isComparable =
    (typeof found === 'number' && typeof value === 'number') || (typeof found === 'string' && typeof value === 'string')
  if (!isComparable) return false
  const [a, b] = [found, value]
  if (op === 'gt') return a > b
  if (op === 'gte') return a >= b
  return op === 'lt' ? a < b : a <= b
}

function isEqual(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b
  const names = Object.keys(a)
  return (
    Array.isArray(a) === Array.isArray(b) &&
    names.length === Object.keys(b).length &&
    names.every((name) => Object.hasOwn(b, name) && isEqual(Reflect.get(a, name), Reflect.get(b, name)))
  )
}
