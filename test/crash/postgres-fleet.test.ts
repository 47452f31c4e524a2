// Fleets on a PostgreSQL of their own, which is taken from them and given back.
import { Client } from 'pg'
import { expect, test } from 'vitest'
import { expectOncePerAttempt, expectWithinBudget, rate } from '../acceptance/harness.ts'
import { calls, ProcessFleet } from '../acceptance/process-fleet.ts'
import { inSchema } from '../services.ts'
import { canSkew } from '../skew.ts'
import { Fleet, pause, until } from './fleet.ts'
import { PostgresCluster } from '../postgres-cluster.ts'
import { ownPostgres } from '../stores.ts'
import { Chaos } from './chaos.ts'
import { callTask, noteTask } from './tasks.ts'
import { Observer } from './observer.ts'

const FAULTS = Number(process.env['CHAOS_FAULTS'] ?? 24)
const SEED = Number(process.env['CHAOS_SEED'] ?? 5)
/** How long a user’s transaction stays open. */
const HOLD_MS = Number(process.env['HOLD_SECONDS'] ?? 10) * 1000
const MINUTES_5 = 300
const INSTALLED = PostgresCluster.installed('fleets whose PostgreSQL is restarted')

test.skipIf(!INSTALLED)(
  'four workers on PostgreSQL, which is restarted and crashes under load, killed, stopped past their leases, with clocks five minutes apart: nothing over budget, lost or doubled',
  async () => {
    const cluster = await ownPostgres()
    const chaos = new Chaos({
      store: inSchema(cluster.url, 'chaos'),
      faults: FAULTS,
      seed: SEED,
      skewsS: canSkew() ? [0, MINUTES_5, -MINUTES_5, 0] : [0, 0, 0, 0],
      restarts: [() => cluster.restart('fast'), () => cluster.restart('immediate')],
    })
    await chaos.run()
    await chaos.expectKept()
    // Else it was no chaos.
    expect(chaos.kills).toBeGreaterThanOrEqual(FAULTS / 3)
    expect(chaos.sleeps).toBeGreaterThanOrEqual(2)
    expect(chaos.doubled).toBeGreaterThan(0)
    expect(chaos.fleet.forgiven.length, 'errors while the store was away').toBeGreaterThan(0)
  },
  240_000,
)

test.skipIf(!INSTALLED).each(['fast', 'immediate'] as const)(
  'what runs goes on while PostgreSQL is away (%s), and is settled once when it is back',
  async (how) => {
    const RUNNING = 6
    const cluster = await ownPostgres()
    const fleet = new Fleet(inSchema(cluster.url, 'away'))
    let mayEnd = false
    const observer = new Observer(async () => {
      await until('runs may end', () => mayEnd)
      return 'done'
    })
    const url = await observer.listen()
    const call = callTask()
    const engine = fleet.engine([call])
    const jobs = await call.enqueueMany(Array.from({ length: RUNNING }, (_, i) => ({ tenant: `t${i}` })))
    const workers = [fleet.worker(url), fleet.worker(url)]
    await until('all have started', () => observer.starts.length === RUNNING)

    fleet.storeMayBeAway = true
    await cluster.stop(how)
    mayEnd = true
    await until('all have been answered', () => observer.starts.every(({ endUs }) => endUs < Infinity))
    // Time for the first settles to fail.
    await pause(1000)
    await cluster.start()
    for (const { id } of jobs)
      await until(`${id} is completed`, async () => {
        try {
          return (await engine.jobs.get(id))?.state === 'completed'
        } catch {
          // This process has to notice too that the server was away.
          return false
        }
      })
    for (const { id } of jobs) expect(await engine.jobs.get(id)).toMatchObject({ attempt: 1, result: 'done' })
    for (const worker of workers) await fleet.stop(worker)
    expect(observer.starts).toHaveLength(RUNNING)
    expect(fleet.lost).toEqual([])
    expect((await engine.limits.inspect('fleet'))[0]).toMatchObject({ active: 0, waiting: 0 })
    expect(fleet.accidents).toEqual([])
  },
)

test.skipIf(!INSTALLED)(
  'nothing starts while PostgreSQL is away; then work goes on at once, within the budget, and nothing is lost',
  async () => {
    const JOBS = 2000
    const policy = rate(200, 1)
    const cluster = await ownPostgres()
    const fleet = new ProcessFleet({ vacant: () => inSchema(cluster.url, 'hot') }, policy)
    const workers = [await fleet.start(), await fleet.start(), await fleet.start(), await fleet.start()]
    await fleet.enqueue(workers[0] as (typeof workers)[0], calls(JOBS, 'hot'))
    await fleet.started(500, 20)
    await cluster.stop('fast')
    await pause(500)
    const before = fleet.starts().length
    await pause(3000)
    expect(fleet.starts().length, 'starts while the store is away').toBe(before)
    await cluster.start()
    await fleet.started(before + 1)
    await until('every job has run', () => new Set(fleet.starts().map(({ id }) => id)).size === JOBS)
    const starts = fleet.starts()
    expectOncePerAttempt(starts)
    expectWithinBudget(
      policy,
      starts.map(({ decidedUs }) => ({ atUs: decidedUs, weight: 1 })),
      'hot',
    )
  },
)

test.skipIf(!INSTALLED)(
  `a user’s transaction that enqueues and stays open for ${HOLD_MS / 1000} s holds up no other job of its lane`,
  async () => {
    const cluster = await ownPostgres()
    const fleet = new Fleet(inSchema(cluster.url, 'held'))
    const note = noteTask()
    const engine = fleet.engine([note])
    await engine.start()
    const users = [new Client({ connectionString: cluster.url }), new Client({ connectionString: cluster.url })]
    for (const user of users) await user.connect()
    const [keeps, regrets] = users as [Client, Client]
    try {
      await (await note.enqueue(0)).result()
      await keeps.query('BEGIN')
      await regrets.query('BEGIN')
      const kept = await note.enqueue(1, { tx: keeps })
      const regretted = await note.enqueue(2, { tx: regrets })
      const endMs = performance.now() + HOLD_MS
      let others = 0
      while (performance.now() < endMs) {
        const other = await note.enqueue(3)
        // Long before the transactions end: a claim that waited for them would be late.
        expect(await other.result({ timeout: HOLD_MS / 4 })).toBe(3)
        others++
      }
      expect(others).toBeGreaterThan(20)
      expect(await engine.jobs.get(kept.id), 'nobody sees it before it is committed').toBeNull()
      await regrets.query('ROLLBACK')
      await keeps.query('COMMIT')
      expect(await kept.result({ timeout: '10s' })).toBe(1)
      expect(await engine.jobs.get(regretted.id)).toBeNull()
    } finally {
      for (const user of users) await user.end()
    }
  },
  HOLD_MS + 60_000,
)
