import type { LimitDefinition } from '../../policy/limits/limit.ts'
import { isNews } from '../shared/limit-changes.ts'
import { changeLimit } from './change-limit.ts'
import type { Context } from './context.ts'
import { endOverdue } from './override.ts'

/** Declares limits. A higher version wins; at the same version the later call does, so that the newest deployment decides. */
export function define(context: Context, limits: readonly LimitDefinition[]): string[] {
  const nowUs = endOverdue(context)
  const changed: string[] = []
  for (const each of limits) {
    const { name, policy, version } = each
    if (!isNews(context.policies.timeline(name), each)) continue
    changeLimit(context, name, null, nowUs, () => context.policies.define(name, policy, version, nowUs))
    changed.push(name)
  }
  return changed
}
