import type { Statements } from '../../database/postgres.ts'
import type { LimitDefinition } from '../store.ts'
import { changeLimit } from './change-limit.ts'
import type { Context } from './context.ts'
import { writeEnds } from './override.ts'

/** Declares limits. A higher version wins; at the same version the later call does, so that the newest deployment decides. */
export async function define(context: Context, db: Statements, limits: readonly LimitDefinition[]): Promise<string[]> {
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
