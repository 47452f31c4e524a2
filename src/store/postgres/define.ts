import type { Statements } from '../../database/postgres.ts'
import { changesStarts } from '../shared/queue-limits.ts'
import type { DeclaredQueue } from '../contract/store.ts'
import type { LimitDefinition } from '../../policy/limits/limit.ts'
import { isNews } from '../shared/limit-changes.ts'
import { changeLimit } from './change-limit.ts'
import type { Context } from './context.ts'
import { LimitChanges } from './limit-timelines.ts'
import { writeEnds } from './override.ts'

/** Declares limits. A higher version wins; at the same version the later call does, so that the newest deployment decides. */
export async function define(context: Context, db: Statements, limits: readonly LimitDefinition[]): Promise<string[]> {
  const { changes, nowUs } = await writeEnds(context, db)
  const changed: string[] = []
  for (const each of limits) {
    if (!isNews(changes.limits.timeline(each.name), each)) continue
    const { name, policy, version } = each
    await changeLimit(db, changes, name, null, nowUs, () => changes.define(name, policy, version, nowUs))
    changed.push(name)
  }
  return changed
}

/** Stores the limits that code gives to queues; returns the queues whose starts now need other buckets. */
export async function declareQueues(
  context: Context,
  db: Statements,
  queues: readonly DeclaredQueue[],
): Promise<string[]> {
  for (const each of queues) context.declared.set(each.queue, each)
  const changes = await LimitChanges.begin(context, db)
  const changed: string[] = []
  // In the order of their names, so that two engines that declare the same queues do not deadlock.
  for (const each of [...queues].sort((a, b) => (a.queue < b.queue ? -1 : 1))) {
    const before = await changes.declare(each)
    if (before && changesStarts(each, before)) changed.push(each.queue)
  }
  return changed
}
