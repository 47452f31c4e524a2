import type { Statements } from '../../database/postgres.ts'
import type { LimitDefinition } from '../store.ts'
import type { Timelines } from '../timelines.ts'
import { changeLimit } from './change-limit.ts'
import type { Context } from './context.ts'
import { writeEnds } from './override.ts'

/** Declares limits. A higher version wins; at the same version the later call does, so that the newest deployment decides. */
export async function define(context: Context, db: Statements, limits: readonly LimitDefinition[]): Promise<string[]> {
  const { changes, nowUs } = await writeEnds(context, db)
  const changed: string[] = []
  for (const each of limits) {
    if (!changesAnything(changes.limits, each)) continue
    const { name, policy, version } = each
    await changeLimit(db, changes, name, null, nowUs, () => changes.define(name, policy, version, nowUs))
    changed.push(name)
  }
  return changed
}

/** Whether a definition is news; not where there is one of a higher version. */
export function changesAnything(limits: Timelines, { name, policy, version }: LimitDefinition): boolean {
  const current = limits.timeline(name).definition
  return !current || (current.version <= version && JSON.stringify(current.policy) !== JSON.stringify(policy))
}
