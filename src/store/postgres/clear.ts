import type { Statements } from '../../database/statements.ts'
import { clearEvents } from '../shared/event-log.ts'
import { readAsync } from '../shared/reading.ts'
import { EMPTIED } from '../shared/sql.ts'
import type { Context } from './context.ts'
import { accessOf } from './shared-sql.ts'

/**
 * Empties the store except for the live engines. No claim decides meanwhile. It locks jobs before buckets, as a
 * settlement does.
 */
export async function clear(context: Context, db: Statements): Promise<void> {
  await db.run(`SELECT pg_advisory_xact_lock(hashtext('sluice.limits'), 0)`)
  await db.run('DELETE FROM sluice.jobs')
  // A transaction that creates lanes holds their buckets: after this lock all lanes are visible.
  await db.run('SELECT sluice.lock_buckets(ARRAY(SELECT id FROM sluice.buckets))')
  for (const table of ['arrivals', 'max_waits', 'flow_ends', ...EMPTIED]) await db.run(`DELETE FROM sluice.${table}`)
  await readAsync(clearEvents(accessOf(context, db)))
  await db.run('DELETE FROM sluice.workers WHERE name IS NOT NULL')
  await db.run(`DELETE FROM sluice.store WHERE starts_with(name, 'setting:')`)
  await db.run(`UPDATE sluice.store SET value = (value::bigint + 1)::text WHERE name = 'limits'`)
  context.queues.forgetRecords()
  context.unlimitedNext.clear()
}
