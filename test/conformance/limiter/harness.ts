import type { BucketUse, LimitBackend, UnitAnswer, UnitRequest } from '../../../src/limiter/contract/limiter.ts'
import { limit, useOf } from '../../../src/policy/limits/define.ts'
import type { LimitDefinition } from '../../../src/policy/limits/limit.ts'
import type { Policy } from '../../../src/policy/limits/policy.ts'

/** A backend under test, whose clock moves only when the test says so. */
export interface Opened {
  readonly backend: LimitBackend
  advance(ms: number): Promise<void>
  close(): Promise<void>
}

/** Opens a backend without limits. */
export type Open = () => Promise<Opened>

export const SECOND_US = 1_000_000

/** A definition as a limiter gives it to its backend. */
export function definition(name: string, policy: Policy): LimitDefinition {
  const { policy: normalised } = useOf(limit(name, policy))
  return { name, policy: normalised, version: normalised.version ?? 0 }
}

let permits = 0

/** A request in a line of its own, for one bucket or several: `'crm'`, `'crm:acme'`, `'crm:acme*3'`. */
export function request(uses: string | readonly string[], more: Partial<UnitRequest> = {}): UnitRequest {
  permits++
  const list = typeof uses === 'string' ? [uses] : uses
  return { uses: list.map(useIn), priority: 0, line: permits, permit: `p${permits}`, leaseUs: 30 * SECOND_US, ...more }
}

export function useIn(text: string): BucketUse {
  const [name = '', weight = '1'] = text.split('*')
  const [limit = '', key = ''] = name.split(':')
  return { limit, key, weight: Number(weight) }
}

/** The answer as text: `go`, `unknown`, or the wait in ms, as in `crm:acme 250`. */
export function shown(answer: UnitAnswer): string {
  if (answer.kind === 'granted') return 'go'
  if (answer.kind === 'unknown') return 'unknown'
  const { by, retryAfterUs } = answer
  const name = by.key === '' ? by.limit : `${by.limit}:${by.key}`
  return `${name} ${retryAfterUs === null ? 'permit' : retryAfterUs / 1000}`
}

/** Asks once for each, in one call and in order. */
export async function ask(backend: LimitBackend, ...uses: readonly (string | readonly string[])[]): Promise<string[]> {
  return (await backend.acquire(uses.map((each) => request(each)))).map(shown)
}
