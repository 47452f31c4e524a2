// A store that version 0.1.0 filled and left in the middle of its work: this version takes it over. How it was filled: fixtures/0.1.0/fill.mjs.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { DatabaseSync } from 'node:sqlite'
import { Client, Pool } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { input, limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { createPostgresStore } from '../../src/exports/postgres.ts'
import { createManualClock, type ManualClock } from '../../src/exports/testing.ts'
import { service } from '../services.ts'
import { dropSchema } from '../drop-schema.ts'

const FIXTURES = new URL('../fixtures/0.1.0/', import.meta.url)
const MINUTE_MS = 60_000
let restored = 0

interface Filled {
  /** When the process that filled it was killed. */
  readonly at: string
  /** Ids by what was made. */
  readonly made: Readonly<Record<string, readonly string[]>>
  readonly jobs: Readonly<Record<string, { task: string; state: string; input: unknown; meta: unknown; tags: unknown }>>
}

interface Mail {
  readonly tenant: string
  readonly n: number
}

function unpacked(name: string): Buffer {
  return gunzipSync(readFileSync(new URL(name, FIXTURES)))
}

/** A store that version 0.1.0 has filled. */
interface Restored {
  readonly store: string | ReturnType<typeof createPostgresStore>
  /** When the leases of its active jobs end, by job; of workers, by worker. */
  readonly leases: () => Promise<Record<string, number>>
  /** The boot of its host; absent: of no matter. */
  readonly boot?: string
}

async function restore(backend: 'sqlite' | 'postgres', clock?: ManualClock): Promise<Restored | null> {
  const leasesIn = (schema: string): string =>
    `SELECT 'job ' || seq AS name, due AS ends FROM ${schema}.jobs WHERE state = 2
     UNION ALL SELECT 'worker ' || id, alive_until FROM ${schema}.workers`
  const ends = (rows: readonly Record<string, unknown>[]): Record<string, number> =>
    Object.fromEntries(rows.map(({ name, ends }) => [String(name), Number(ends)] as const))
  if (backend === 'sqlite') {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-older-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const path = join(folder, 'jobs.db')
    writeFileSync(path, unpacked('sqlite.db.gz'))
    const rows = (sql: string): Record<string, unknown>[] => {
      const db = new DatabaseSync(path)
      try {
        return db.prepare(sql).all()
      } finally {
        db.close()
      }
    }
    const [{ boot } = {}] = rows(`SELECT value ->> 0 AS boot FROM store WHERE name = 'boot'`)
    return { store: `sqlite:${path}`, leases: async () => ends(rows(leasesIn('main'))), boot: String(boot) }
  }
  const server = await service('postgres', 'a store of version 0.1.0')
  if (server === null) return null
  const schema = `sluice_older_${process.pid}_${++restored}`
  const client = new Client({ connectionString: server })
  await client.connect()
  await client.query(
    unpacked('postgres.sql.gz')
      .toString()
      .replaceAll(/\bfilled\b/g, schema),
  )
  const pool = new Pool({ connectionString: server, max: 4 })
  onTestFinished(async () => {
    await pool.end()
    await dropSchema(client, schema)
    await client.end()
  })
  return {
    store: createPostgresStore({ pool, schema, ...(clock && { clock }) }),
    leases: async () => ends((await client.query<Record<string, unknown>>(leasesIn(schema))).rows),
  }
}

test.each(['sqlite', 'postgres'] as const)(
  'what version 0.1.0 left in a %s store is neither lost nor run twice, and its budgets hold',
  async (backend) => {
    const filled = JSON.parse(readFileSync(new URL(`${backend}.json`, FIXTURES), 'utf8')) as Filled
    const clock = createManualClock({ start: filled.at })
    const { store } = (await restore(backend, clock)) ?? {}
    if (store === undefined) return
    const ran: { id: string; tenant: string; atMs: number }[] = []
    const run = (given: unknown, ctx: { job: { id: string } }): unknown => {
      ran.push({ id: ctx.job.id, tenant: (given as Mail | null)?.tenant ?? '', atMs: clock.now() })
      return given ?? null
    }
    const outbound = limit('outbound', { rate: 2, per: '1m' })
    const slots = limit('slots', { concurrency: 2 })
    const closed = limit('closed', { window: 'sliding', max: 5, per: '10m' })
    const sluice = new Sluice({
      store,
      clock,
      logger: silentLogger,
      limits: [closed],
      queues: { default: { concurrency: 20 }, bulk: { concurrency: 5, limits: [limit('bulk', { every: '10s' })] } },
      tasks: [
        task('mail', input<Mail>(), { limits: [outbound.by(({ tenant }) => tenant)], run }),
        task('plain', { run }),
        task('slow', { limits: [slots], run }),
        task('fails', { retry: { attempts: 3, backoff: 'fixed', initial: '10m' }, run }),
        task('gives-up', { retry: { attempts: 1 }, run }),
        task('blocked', { limits: [closed], run }),
        task('step', { run }),
        task('many', { queue: 'bulk', run }),
      ],
    })
    onTestFinished(() => sluice.stop({ within: 0 }))

    for (const [id, was] of Object.entries(filled.jobs)) {
      const job = await sluice.jobs.get(id)
      expect({ id, ...job }).toMatchObject({ id, task: was.task, input: was.input, meta: was.meta, tags: was.tags })
      // An active one may have been taken back by then.
      if (was.state !== 'active') expect(job?.state).toBe(was.state)
    }
    const [waiting] = filled.made['blocked'] ?? []
    expect(await sluice.jobs.explain(waiting ?? '')).toMatchObject({ waitsOn: { limit: 'closed' } })
    expect((await sluice.schedules.list()).map(({ name }) => name).toSorted()).toEqual(['nightly', 'often'])

    await sluice.start()
    await clock.advance(22 * MINUTE_MS)
    expect(ran.filter(({ id }) => filled.made['blocked']?.includes(id))).toEqual([])
    await sluice.limits.resume('closed')
    await clock.advance(11 * MINUTE_MS)

    const ended = new Set(['completed', 'cancelled', 'discarded'])
    const runsOf = (id: string): number => ran.filter((each) => each.id === id).length
    for (const [id, was] of Object.entries(filled.jobs)) {
      const state = (await sluice.jobs.get(id))?.state
      expect({ task: was.task, was: was.state, state, runs: runsOf(id) }).toEqual({
        task: was.task,
        was: was.state,
        state: ended.has(was.state) ? was.state : 'completed',
        runs: ended.has(was.state) ? 0 : 1,
      })
    }
    // The override of key b came with the store: one a minute, where the others have two.
    for (const [tenant, most] of [
      ['a', 2],
      ['b', 1],
      ['c', 2],
    ] as const) {
      const starts = ran.filter((each) => each.tenant === tenant).map(({ atMs }) => atMs)
      const within = (from: number): number => starts.filter((at) => at >= from && at < from + MINUTE_MS).length
      // A token bucket that is never idle holds `rate` in every period behind its burst.
      const worst = Math.max(...starts.slice(most).map(within))
      expect({ tenant, within: worst <= most }).toEqual({ tenant, within: true })
    }
    // The jobs in no list of the fixture are occurrences of its schedules.
    expect(ran.filter(({ id }) => !(id in filled.jobs)).length).toBe(3)
  },
)

test.each(['sqlite', 'postgres'] as const)(
  'the upgrade of a %s store takes no time from the leases of what runs: none could be extended',
  async (backend) => {
    const older = await restore(backend)
    if (older === null) return
    const before = Object.entries(await older.leases())
    const clock = { ...systemClock, bootId: older.boot ?? systemClock.bootId }
    const sluice = new Sluice({ store: older.store, tasks: [], clock, logger: silentLogger })
    onTestFinished(() => sluice.stop({ within: 0 }))
    await sluice.jobs.list({ limit: 1 })
    const after = await older.leases()
    expect(before.filter(([name]) => name.startsWith('job'))).not.toEqual([])
    expect(before.filter(([name, ends]) => !((after[name] ?? 0) > ends))).toEqual([])
  },
)
