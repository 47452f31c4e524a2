import { systemRandom } from '../../base/random.ts'
import { withoutPassword } from '../../base/text.ts'
import { createLimiter } from '../../limiter/create.ts'
import { removeLimits } from '../../limiter/open.ts'
import { type PartnerLimits, SHARED } from './partner-task.ts'

/** Where the demo keeps its budgets outside its store. */
export interface SharedBudgets {
  readonly backend: string
  /** One for each demo, so that two at once share nothing. */
  readonly namespace: string
}

/** The budgets of a new demo at this server. @param backend `redis://host` or `nats://host` */
export function sharedBudgets(backend: string): SharedBudgets {
  return { backend, namespace: `sluice-demo-${Math.floor(systemRandom.next() * 2 ** 48).toString(36)}` }
}

/** The option `budgets` of an engine of the demo. */
export function budgetsOption(shared: SharedBudgets | null): Readonly<Record<string, SharedBudgets>> {
  return shared === null ? {} : { [SHARED]: shared }
}

/** In words, without a password. */
export function sharedText({ backend, namespace }: SharedBudgets): string {
  return `${withoutPassword(backend)}, namespace ${namespace}`
}

/**
 * Defines the limits at the server, so that one which cannot be reached ends the demo before anything starts.
 * @throws {SluiceError} `limiter.backend_down`, `limiter.url.invalid`
 */
export async function openSharedBudgets(
  { backend, namespace }: SharedBudgets,
  { total }: PartnerLimits,
): Promise<void> {
  const limiter = createLimiter({ backend, namespace, limits: [total] })
  try {
    await limiter.inspect(total)
  } finally {
    await limiter.close()
  }
}

/** Removes what the demo left at the server. */
export async function removeSharedBudgets({ backend, namespace }: SharedBudgets): Promise<void> {
  await removeLimits(backend, namespace)
}
