import type { InputShape } from './input-shape.ts'

/** The part of a value that does not fit its description, in words; null: it fits. */
export function misfit(shape: InputShape, value: unknown, path: string = 'the input'): string | null {
  if (shape.type !== undefined && !isOf(shape.type, value)) return `${path} is not of type ${shape.type}`
  if (typeof value !== 'object' || value === null) return null
  if (Array.isArray(value)) {
    const { items } = shape
    return items ? firstOf(value.map((each, i) => misfit(items, each, `${path}[${i}]`))) : null
  }
  const lacking = shape.required?.find((name) => !Object.hasOwn(value, name))
  if (lacking !== undefined) return `${path}.${lacking} is missing`
  return firstOf(
    Object.entries(shape.properties ?? {}).map(([name, inner]) =>
      Object.hasOwn(value, name) ? misfit(inner, Reflect.get(value, name), `${path}.${name}`) : null,
    ),
  )
}

function firstOf(found: readonly (string | null)[]): string | null {
  return found.find((each) => each !== null) ?? null
}

function isOf(type: string, value: unknown): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value)
  return typeof value === type
}
