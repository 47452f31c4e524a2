import type {
  BucketUse,
  Granted,
  HeldPermit,
  LimitBackend,
  UnitAnswer,
  UnitRequest,
} from '../../limiter/contract/limiter.ts'
import { limit, useOf } from '../../policy/limits/define.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import type { Policy } from '../../policy/limits/policy.ts'
import { equal } from './expectations.ts'

/** A backend that was opened for one case. */
export interface OpenedBackend {
  readonly backend: LimitBackend
  /** Moves the clock that the backend decides by, by so many ms; fractions down to a microsecond count. */
  advance(ms: number): Promise<void> | void
  /** Ends it, and removes what it kept. */
  close(): Promise<void> | void
}

/** Opens a backend that knows no limit and has no bucket. Each case opens its own. */
export type OpenBackend = () => Promise<OpenedBackend> | OpenedBackend

/** Cases by their names. */
export type Cases = Readonly<Record<string, (subject: Subject) => Promise<void>>>

/** A second in the unit of the contract. */
export const SECOND_US = 1_000_000

let requests = 0

/** A request in a line of its own, for one bucket or several: `'crm'`, `'crm:acme'`, `'crm:acme*3'`. */
export function request(uses: string | readonly string[], more: Partial<UnitRequest> = {}): UnitRequest {
  requests++
  const list = typeof uses === 'string' ? [uses] : uses
  return {
    uses: list.map(useIn),
    priority: 0,
    line: requests,
    permit: `p${requests}`,
    leaseUs: 30 * SECOND_US,
    ...more,
  }
}

/** The answer as text: `go`, `unknown`, or the wait in ms, as in `crm:acme 250`. */
export function shown(answer: UnitAnswer): string {
  if (answer.kind === 'granted') return 'go'
  if (answer.kind === 'unknown') return 'unknown'
  const { by, retryAfterUs } = answer
  const name = by.key === '' ? by.limit : `${by.limit}:${by.key}`
  return `${name} ${retryAfterUs === null ? 'permit' : retryAfterUs / 1000}`
}

/** The backend under test, with short forms of its verbs. */
export class Subject {
  readonly backend: LimitBackend
  readonly #opened: OpenedBackend

  constructor(opened: OpenedBackend) {
    this.backend = opened.backend
    this.#opened = opened
  }

  async advance(ms: number): Promise<void> {
    await this.#opened.advance(ms)
  }

  define(limits: Readonly<Record<string, Policy>>): Promise<readonly string[]> {
    return this.backend.define(Object.entries(limits).map(([name, policy]) => definition(name, policy)))
  }

  /** Asks once for each, in one call and in order. */
  async ask(...uses: readonly (string | readonly string[])[]): Promise<string[]> {
    return (await this.backend.acquire(uses.map((each) => request(each)))).map(shown)
  }

  /** Asks once, and expects the units. */
  async granted(uses: string | readonly string[], more: Partial<UnitRequest> = {}): Promise<Granted> {
    const [answer] = await this.backend.acquire([request(uses, more)])
    equal(answer?.kind, 'granted')
    return answer as Granted
  }

  /** Asks once, and expects a permit. */
  async permit(uses: string, more: Partial<UnitRequest> = {}): Promise<HeldPermit> {
    const { permit } = await this.granted(uses, more)
    equal(permit === null, false)
    return permit as HeldPermit
  }
}

/** A definition as a limiter gives it to its backend. */
function definition(name: string, policy: Policy): LimitDefinition {
  const { policy: normalised } = useOf(limit(name, policy))
  return { name, policy: normalised, version: normalised.version ?? 0 }
}

function useIn(text: string): BucketUse {
  const [name = '', weight = '1'] = text.split('*')
  const [limit = '', key = ''] = name.split(':')
  return { limit, key, weight: Number(weight) }
}
