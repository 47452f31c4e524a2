import { SluiceError } from '../../base/errors.ts'
import type { Statements } from '../../database/postgres.ts'
import type { LimitDefinition } from '../store.ts'
import { changeLimit } from './change-limit.ts'
import type { Context } from './context.ts'
import { writeEnds } from './override.ts'

/**
 * Declares limits. A higher version wins; at the same version the later call does, so that the newest deployment decides.
 * @throws limit.scope.unsupported
 */
export async function define(context: Context, db: Statements, limits: readonly LimitDefinition[]): Promise<string[]> {
  const apart = limits.find(({ policy }) => policy.scope === 'worker')
  if (apart)
    throw new SluiceError(
      'limit.scope.unsupported',
      `The limit ${apart.name} has scope 'worker', and the store on PostgreSQL keeps budgets of the fleet only: none of the limits was defined. Leave scope at 'fleet', or use SQLite.`,
    )
  const { changes, nowUs } = await writeEnds(context, db)
  const changed: string[] = []
  for (const { name, policy, version } of limits) {
    const current = changes.limits.timeline(name).definition
    if (current && (current.version > version || JSON.stringify(current.policy) === JSON.stringify(policy))) continue
    await changeLimit(db, changes, name, null, nowUs, () => changes.define(name, policy, version, nowUs))
    changed.push(name)
  }
  return changed
}
