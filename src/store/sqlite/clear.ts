import { clearEvents } from '../shared/event-log.ts'
import { readNow } from '../shared/reading.ts'
import { EMPTIED } from '../shared/sql.ts'
import type { Context } from './context.ts'
import { accessOf } from './shared-sql.ts'

/** Empties the store except for the live engines and the clock. */
export function clear(context: Context): void {
  for (const table of ['jobs', ...EMPTIED]) context.db.run(`DELETE FROM ${table}`)
  readNow(clearEvents(accessOf(context)))
  context.db.run('DELETE FROM workers WHERE name IS NOT NULL')
  context.db.run(`DELETE FROM store WHERE name LIKE 'setting:%'`)
  context.db.run(`UPDATE store SET value = value + 1 WHERE name = 'limits'`)
  context.policies.forget()
  context.ids.queues.clear()
  context.ids.queueNames.clear()
  context.unlimitedNext.clear()
}
