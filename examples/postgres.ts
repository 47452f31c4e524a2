// Budgets over a fleet, and a job in a transaction of your own. Run it with: npx node examples/postgres.ts [postgres://…]
import { Pool } from 'pg'
import { input, limit, Sluice, task } from '../src/exports/index.ts'
import { createPostgresStore } from '../src/exports/postgres.ts'

const address = process.argv[2] ?? process.env['SLUICE_TEST_POSTGRES'] ?? 'postgres://postgres@127.0.0.1:5432/test'
const pool = new Pool({ connectionString: address, connectionTimeoutMillis: 3000 })
const schema = `sluice_example_${process.pid}`

const crm = limit('crm', { rate: 20, per: '1s', burst: 2 })
const sync = task('tenant.sync', input<{ tenant: string }>(), {
  limits: [crm.by(({ tenant }) => tenant)],
  run: ({ tenant }) => tenant,
})

async function show(): Promise<void> {
  const sluice = new Sluice({ store: createPostgresStore({ pool, schema }), tasks: [sync] })
  await sluice.start()

  const client = await pool.connect()
  await client.query('BEGIN')
  const rolledBack = await sync.enqueue({ tenant: 'acme' }, { tx: client })
  await client.query('ROLLBACK')
  await client.query('BEGIN')
  const committed = await sync.enqueue({ tenant: 'acme' }, { tx: client })
  await client.query('COMMIT')
  client.release()
  console.log('committed:', await committed.result(), '– rolled back:', await sluice.jobs.get(rolledBack.id))

  // Triggers and other languages enqueue by a function.
  await pool.query(
    `SELECT "${schema}".enqueue('tenant.sync', '{"tenant":"birch"}', limits => '[{"limit":"crm","key":"birch"}]')`,
  )
  const jobs = await sync.enqueueMany(Array.from({ length: 5 }, () => ({ tenant: 'acme' })))
  await Promise.all(jobs.map((job) => job.result()))
  console.log(await sluice.limits.inspect(crm, 'acme'))
  await sluice.stop()
  await pool.query(`DROP SCHEMA "${schema}" CASCADE`)
}

try {
  await pool.query('SELECT 1')
  await show()
} catch (error) {
  if (!(error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED')) throw error
  console.log(`There is no PostgreSQL at ${address}: start one, or name another as an argument.`)
}
await pool.end()
