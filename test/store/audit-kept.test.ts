// The record of changes forgets the oldest ones of a tenant that changes much, and none of the others.
import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { silentLogger } from '../../src/base/logger.ts'
import { Sluice } from '../../src/exports/index.ts'
import { remoteOf } from '../../src/remote/remote.ts'
import { AUDIT_KEPT, AUDIT_PRUNED_EVERY } from '../../src/store/contract/audit.ts'
import { everyStore } from '../stores.ts'

const ENTRY = { atMs: Date.now(), who: 'w', action: 'a', subject: 's', detail: '{}' }

/** Stores many changes of one tenant at once. */
async function fill(url: string, rows: number): Promise<void> {
  const values = (n: string): string => `SELECT ${ENTRY.atMs} + 0 * ${n}, 'w', 'busy', 'a', 's', '{}'`
  const into = 'INTO audit (at, who, tenant, action, subject, detail)'
  if (url.startsWith('sqlite:')) {
    const db = new DatabaseSync(url.slice('sqlite:'.length))
    const numbers = `WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < ${rows})`
    db.exec(`${numbers} INSERT ${into} ${values('n')} FROM g`)
    return db.close()
  }
  const client = new Client({ connectionString: url.replace(/[?&]schema=.*/, '') })
  await client.connect()
  await client.query(`SET search_path = "${new URL(url).searchParams.get('schema')}"`)
  await client.query(`INSERT ${into} ${values('n')} FROM generate_series(1, ${rows}) n`)
  await client.end()
}

test.each(await everyStore('the record of changes'))('on $name', async ({ create }) => {
  const url = create()
  const sluice = new Sluice({ store: url, tasks: [], logger: silentLogger })
  onTestFinished(() => sluice.stop())
  const store = await remoteOf(sluice).store()
  await store.audit({ ...ENTRY, tenant: 'quiet' })
  await fill(url, AUDIT_KEPT + 200)
  for (let n = 0; n < AUDIT_PRUNED_EVERY; n++) await store.audit({ ...ENTRY, tenant: 'busy' })
  const trail = async (tenant: string): Promise<number> =>
    (await store.auditTrail({ before: null, tenant, limit: 2 * AUDIT_KEPT })).length
  expect(await trail('quiet')).toBe(1)
  const kept = await trail('busy')
  expect(kept).toBeGreaterThanOrEqual(AUDIT_KEPT)
  expect(kept).toBeLessThanOrEqual(AUDIT_KEPT + AUDIT_PRUNED_EVERY)
})
