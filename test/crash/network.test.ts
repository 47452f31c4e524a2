// Fleets on PostgreSQL over a network that delays, cuts, forgets connections and loses single answers.
import { expect, onTestFinished, test } from 'vitest'
import { type Job, seededRandom, silentLogger, Sluice } from '../../src/exports/index.ts'
import { type Link, PostgresProxy } from '../postgres-proxy.ts'
import { onPostgres } from '../stores.ts'
import { Fleet, pause, until } from './fleet.ts'
import { AT_ONCE, callTask, GUARD_MS, PER_SECOND } from './tasks.ts'
import { monotonicUs, Observer } from './observer.ts'

const FAULTS = Number(process.env['NETWORK_FAULTS'] ?? 200)
const SEED = Number(process.env['NETWORK_SEED'] ?? 3)
const WORKERS = 3
const TENANTS = 8
/** As many jobs wait at least, so that a worker that stands still is noticed. */
const BACKLOG = 80
const FAULT_EVERY_MS = 120
/** Far longer than any fault lasts: what a lost claim has taken must not have to wait for it. */
const LEASE = '60s'
/** Half the lease: work that waited for a lease to end is found out. */
const GOES_ON_WITHIN_MS = 30_000

const postgres = await onPostgres('fleets over a spoilt network')

/** The faults that a connection may have. */
const FAULTS_OF: readonly ((link: Link, chance: () => number) => void)[] = [
  (link) => link.cut(),
  (link) => Object.assign(link, { dead: true }),
  (link) => Object.assign(link, { losesAnswerTo: () => true }),
  (link) => Object.assign(link, { losesAnswerTo: (sent: string) => /claim_(write|open)/.test(sent) }),
  (link) => Object.assign(link, { losesAnswerTo: (sent: string) => sent.includes('.settle(') }),
  (link, chance) => Object.assign(link, { delayMs: 20 + chance() * 1000 }),
]

test.skipIf(!postgres)(
  `${WORKERS} processes under ${FAULTS} faults of the network: nothing lost, nothing over budget, no attempt charged for a run that never started`,
  async () => {
    const random = seededRandom(SEED)
    const direct = postgres!.vacant()
    const proxy = await PostgresProxy.before(direct)
    const fleet = new Fleet(proxy.url)
    fleet.storeMayBeAway = true
    const observer = new Observer(async () => {
      await pause(5 + random.next() * 20)
      return 'done'
    })
    const url = await observer.listen()
    const call = callTask()
    // Calls are enqueued over the same network; who looks at them in the end has one of his own.
    fleet.engine([call])
    const looker = new Sluice({ store: direct, tasks: [], logger: silentLogger })
    onTestFinished(() => looker.stop())
    const jobs: Job<string>[] = []
    let asked = 0
    const arrive = async (): Promise<void> => {
      const calls = Array.from({ length: TENANTS * 3 }, (_, n) => ({ tenant: `t${n % TENANTS}` }))
      asked += calls.length
      // One that fails may or may not have been kept.
      jobs.push(...(await call.enqueueMany(calls).catch(() => [])))
    }
    await arrive()
    const workers = Array.from({ length: WORKERS }, () => fleet.worker(url, { lease: LEASE }))
    for (const worker of workers) await until(`${worker.name} is at work`, () => worker.ready)

    for (let faults = 0; faults < FAULTS;) {
      if (asked - observer.starts.length < BACKLOG * 2) void arrive()
      const links = [...proxy.links].filter(({ dead }) => !dead)
      const link = links[Math.floor(random.next() * links.length)]
      if (link) FAULTS_OF[faults++ % FAULTS_OF.length]?.(link, () => random.next())
      await pause(FAULT_EVERY_MS * (0.5 + random.next()))
    }
    const lastUs = monotonicUs()
    for (const link of proxy.links) Object.assign(link, { losesAnswerTo: null, delayMs: 0 })
    // Those that fell silent stay so; work must go on nevertheless, in each process.
    for (let i = 0; i < 3; i++) await arrive()
    await until('work goes on', () => (observer.starts.at(-1)?.atUs ?? 0) > lastUs, GOES_ON_WITHIN_MS)
    // Others may be quicker to start what there is: there has to be work until the last of them goes on.
    const available = async (): Promise<number> =>
      (await looker.jobs.list({ states: ['available'], limit: BACKLOG })).length
    for (const { name } of workers)
      await until(`${name} goes on`, async () => {
        if ((await available()) < BACKLOG / 2) await arrive()
        return observer.starts.some(({ worker, atUs }) => worker === name && atUs > lastUs)
      })

    const unfinished = async (): Promise<number> =>
      (await looker.jobs.list({ states: ['available', 'active', 'retryable', 'scheduled'], limit: 1000 })).length
    await until('every job has ended', async () => (await unfinished()) === 0)
    for (const worker of workers) await fleet.stop(worker)

    expect(fleet.accidents).toEqual([])
    for (const { id } of jobs) expect((await looker.jobs.get(id))?.state, `job ${id}`).toBe('completed')
    const ids = new Set(observer.starts.map(({ id }) => id))
    expect(ids.size, 'jobs that nobody asked for').toBeLessThanOrEqual(asked)
    const decidedUs = new Map<string, number[]>()
    for (const id of ids) {
      const job = await looker.jobs.get(id)
      const starts = observer.startsOf(id)
      expect(starts.map(({ attempt }) => attempt)).toEqual(starts.map((_, n) => n + 1))
      expect(job?.attempt, `attempts of ${id}`).toBe(starts.length)
      for (const { tenant, ageMs } of starts)
        decidedUs.set(tenant, [...(decidedUs.get(tenant) ?? []), (job?.createdAt.getTime() ?? 0) * 1000 + ageMs * 1000])
    }
    // No lease was lost, so no job ran twice, and no two runs shared a permit.
    expect(fleet.lost).toEqual([])
    expect(observer.starts).toHaveLength(ids.size)
    expect(observer.mostOpen).toBeLessThanOrEqual(AT_ONCE)
    for (const [tenant, times] of decidedUs) {
      const sorted = times.sort((a, b) => a - b)
      const closestMs = Math.min(...sorted.slice(PER_SECOND).map((time, n) => (time - (sorted[n] as number)) / 1000))
      expect(closestMs, `${tenant}: ms between decisions`).toBeGreaterThan(1000 + GUARD_MS - 1)
    }
    for (const { limit, key, active, waiting } of [
      ...(await looker.limits.inspect('tenant')),
      ...(await looker.limits.inspect('fleet')),
    ])
      expect({ limit, key, active, waiting }).toEqual({ limit, key, active: 0, waiting: 0 })
    // Else it was no chaos.
    expect(fleet.forgiven.length, 'troubles that engines told of').toBeGreaterThan(WORKERS)
    expect(proxy.made, 'connections').toBeGreaterThan(FAULTS / 4)
  },
  300_000,
)
