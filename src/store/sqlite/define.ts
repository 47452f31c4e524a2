import type { LimitDefinition } from '../../policy/limits/limit.ts'
import { changeLimit } from './change-limit.ts'
import type { Context } from './context.ts'
import { endOverdue } from './override.ts'

/** Declares limits. A higher version wins; at the same version the later call does, so that the newest deployment decides. */
export function define(context: Context, limits: readonly LimitDefinition[]): string[] {
  const nowUs = endOverdue(context)
  const changed: string[] = []
  for (const { name, policy, version } of limits) {
    const current = context.policies.timeline(name).definition
    if (current && (current.version > version || JSON.stringify(current.policy) === JSON.stringify(policy))) continue
    changeLimit(context, name, null, nowUs, () => context.policies.define(name, policy, version, nowUs))
    changed.push(name)
  }
  return changed
}
