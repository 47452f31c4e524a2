import type { Clock } from '../base/clock.ts'
import { internalsOf } from '../engine/internals.ts'
import { backendLoader } from '../limiter/open.ts'
import type { Remote } from '../remote/remote.ts'
import { Budgets } from './budgets.ts'
import type { HttpOptions } from './http-options.ts'
import type { LimitRules } from './limit-rules.ts'
import type { TenantNames } from './tenant-names.ts'

/** The parts of a server that its budgets need. */
interface Parts {
  readonly limits: LimitRules
  readonly names: TenantNames
  readonly remote: Remote
  readonly clock: Clock
}

/**
 * The budgets of a server: those of the store, shared with its jobs, or of the backend that its options name.
 * @throws {SluiceError} `limiter.url.invalid`
 */
export function budgetsOf(
  { sluice, budgets }: Pick<HttpOptions, 'sluice' | 'budgets'>,
  { limits, names, remote, clock }: Parts,
): Budgets {
  if (budgets === undefined)
    return new Budgets({
      limits,
      names,
      backend: () => internalsOf(sluice).budgets.backend(),
      stored: async () => (await remote.store()).limits(),
      isStore: true,
      isLocal: true,
      clock,
      // The engine ends it.
      close: async () => undefined,
    })
  const loader = backendLoader(budgets, null, clock)
  let isUsed = false
  return new Budgets({
    limits,
    names,
    backend: () => {
      isUsed = true
      return loader.load()
    },
    stored: async () => [],
    isStore: false,
    isLocal: loader.isLocal,
    clock,
    // A backend of the caller's own stays open.
    close: async () => (isUsed && typeof budgets === 'string' ? (await loader.load()).close() : undefined),
  })
}
