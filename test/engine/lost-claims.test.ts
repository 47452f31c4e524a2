// Claims that the server has written and whose answer never came.
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { input, limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { PostgresProxy } from '../postgres-proxy.ts'
import { onPostgres } from '../stores.ts'

const postgres = await onPostgres('claims whose answer is lost')

test.skipIf(!postgres).each(['with a limit', 'without limits'] as const)(
  'a job of a claim whose answer was lost runs at once, at its only attempt (%s)',
  async (which) => {
    const proxy = await PostgresProxy.before(postgres!.create())
    const ran: number[] = []
    const work = task('lost.claim', input<number>(), {
      limits: which === 'with a limit' ? [limit('one', { concurrency: 1 })] : [],
      retry: { attempts: 1 },
      run: (n) => void ran.push(n),
    })
    const engine = new Sluice({ store: proxy.url, tasks: [work], lease: '1h', logger: silentLogger })
    onTestFinished(() => engine.stop({ within: 0 }))
    await engine.start()
    await (await work.enqueue(0)).result()
    proxy.losesAnswerTo = (sent, answered) => /claim_(write|open)/.test(sent) && answered.includes('lost.claim')
    const jobs = [await work.enqueue(1), await work.enqueue(2)]
    for (const job of jobs) await job.result({ timeout: '60s' })
    expect(proxy.losesAnswerTo, 'an answer was lost').toBeNull()
    expect(ran).toEqual([0, 1, 2])
    for (const { id } of jobs) expect(await engine.jobs.get(id)).toMatchObject({ state: 'completed', attempt: 1 })
    expect((await engine.limits.inspect('one').catch(() => [])).map(({ active }) => active)).toEqual(
      which === 'with a limit' ? [0] : [],
    )
  },
)

test.skipIf(!postgres)(
  'a claim that the server writes long after it has failed here is given back at a heartbeat',
  async () => {
    const store = postgres!.create()
    const proxy = await PostgresProxy.before(store)
    const ran: number[] = []
    const work = task('late.claim', input<number>(), { retry: { attempts: 1 }, run: (n) => void ran.push(n) })
    const engine = new Sluice({
      store: proxy.url,
      tasks: [work],
      lease: '1h',
      heartbeat: '200ms',
      logger: silentLogger,
    })
    onTestFinished(() => engine.stop({ within: 0 }))
    await engine.start()
    await (await work.enqueue(0)).result()

    const other = new Client({ connectionString: store })
    await other.connect()
    onTestFinished(() => other.end())
    // A transaction that delays a queue, as a pause does, has this lock; this schema has another name for it.
    const held = `"${new URL(store).searchParams.get('schema')}".held`
    const waiting = async (): Promise<number> => {
      const { rows } = await other.query<{ waiting: number }>(
        `SELECT count(*)::int AS waiting FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND mode = 'ShareLock'
         AND classid = (hashtext($1) + 4294967296) % 4294967296 AND objid = (hashtext('default') + 4294967296) % 4294967296`,
        [held],
      )
      return rows[0]?.waiting ?? 0
    }
    await other.query('BEGIN')
    await other.query(`SELECT pg_advisory_xact_lock(hashtext($1), hashtext('default'))`, [held])
    const job = await work.enqueue(1)
    await expect.poll(waiting).toBe(1)
    for (const link of proxy.links) link.cut()
    // The server does not notice, and this process claims again behind it.
    await expect.poll(waiting).toBe(2)
    await other.query('COMMIT')
    await job.result({ timeout: '60s' })
    expect(ran).toEqual([0, 1])
    expect(await engine.jobs.get(job.id)).toMatchObject({ state: 'completed', attempt: 1 })
  },
)
