/** Expectations of the cases, without a test framework. A failure throws an `AssertionError`, which every framework shows. */
import assert from 'node:assert/strict'

/** The values are equal, in depth. */
export function equal(actual: unknown, expected: unknown): void {
  assert.deepEqual(actual, expected)
}

/** The statement holds. */
export function ok(holds: boolean, what: string): void {
  assert.ok(holds, what)
}

/** Every field of `expected` is in `actual`, in depth; others may be there too. */
export function matches(actual: unknown, expected: Readonly<Record<string, unknown>>): void {
  assert.deepEqual(part(actual, expected), expected)
}

/** The call is refused with that code of a `SluiceError`. */
export async function refused(call: Promise<unknown>, code: string): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.equal(part(error, { code })?.['code'], code)
    return true
  })
}

function part(
  actual: unknown,
  expected: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> | undefined {
  if (typeof actual !== 'object' || actual === null) return undefined
  const found = actual as Record<string, unknown>
  return Object.fromEntries(
    Object.entries(expected).map(([name, value]) => [name, isPlain(value) ? part(found[name], value) : found[name]]),
  )
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
