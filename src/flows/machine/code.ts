import type { RetryPolicy } from '../../jobs/retry-policy.ts'
import type { Schema } from '../../jobs/schema.ts'
import type { UseSpec } from '../../policy/limits/define.ts'
import type { Schemas } from '../shared/startable.ts'
import type { To } from './moves.ts'

/** A machine with all defaults. */
export interface MachineCode {
  readonly name: string
  readonly queue: string
  /** The steps in the order of their declaration. */
  readonly steps: readonly string[]
  readonly first: string
  readonly states: Readonly<Record<string, Schema>>
  readonly signals: Readonly<Record<string, Schema>>
  readonly result: Schema | null
  readonly limits: ReadonlyMap<string, readonly UseSpec<never>[]>
  readonly retry: RetryPolicy
  readonly timeoutMs: number | null
  readonly run: Readonly<Record<string, (state: unknown, to: To<Schemas, Schemas, unknown>) => unknown>>
}
