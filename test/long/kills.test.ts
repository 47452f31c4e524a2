// A large fleet on one store, whose processes are killed one after the other. Not part of `npm test`: `npm run test:long`.
import { expect, onTestFinished, test } from 'vitest'
import { type Job, seededRandom, silentLogger, Sluice } from '../../src/exports/index.ts'
import { comesTrue, Fleet, type Member, pause, until } from '../crash/fleet.ts'
import { AT_ONCE, callTask, GUARD_MS, PER_SECOND } from '../crash/tasks.ts'
import { type Start, Observer } from '../crash/observer.ts'
import { everyStore } from '../stores.ts'

const PROCESSES = Number(process.env['LONG_PROCESSES'] ?? 20)
const KILLS = Number(process.env['LONG_KILLS'] ?? 200)
const SEED = Number(process.env['LONG_SEED'] ?? 20)
const TENANTS = 8
/** A slow machine kills fewer: what is left of ten minutes is for the jobs to end. */
const KILL_FOR_MS = 420_000
/** So many jobs wait at least whenever a process is killed. */
const BACKLOG = 60

const KINDS = await everyStore('a large fleet, killed')

test.each(KINDS)(
  `${PROCESSES} processes and ${KILLS} kills on $name: nothing lost, nothing over budget, nothing twice but what a kill interrupted`,
  async (kind) => {
    const random = seededRandom(SEED)
    const store = kind.create()
    const fleet = new Fleet(store)
    // So many processes may come up more slowly than a server waits for them; they try again.
    fleet.storeMayBeAway = kind.name === 'postgres'
    const call = callTask()
    const engine = new Sluice({ store, tasks: [call], logger: silentLogger })
    onTestFinished(() => engine.stop())
    const observer = new Observer(async () => {
      await pause(10 + random.next() * 60)
      return 'done'
    })
    const url = await observer.listen()
    const jobs: Job<string>[] = []
    const arrive = async (): Promise<void> => {
      const calls = Array.from({ length: TENANTS * 10 }, (_, n) => ({ tenant: `t${n % TENANTS}` }))
      jobs.push(...(await call.enqueueMany(calls)))
    }
    await arrive()
    const beganMs = performance.now()
    const members: Member[] = Array.from({ length: PROCESSES }, () => fleet.worker(url))
    const killed = new Set<string>()
    let interrupted = 0
    let kills = 0
    for (; kills < KILLS && performance.now() - beganMs < KILL_FOR_MS; kills++) {
      while (jobs.length - observer.starts.length < BACKLOG) await arrive()
      if (kills % 2 === 0) await comesTrue(10_000, () => members.some(({ name }) => observer.isBusy(name)))
      // Every fifth may be one that has only begun to open the store.
      const ready = members.filter((member) => kills % 5 === 4 || member.ready)
      await until('somebody is at work', () => members.some((member) => member.ready))
      const busy = ready.filter(({ name }) => observer.isBusy(name))
      const among = busy.length > 0 && kills % 2 === 0 ? busy : ready
      const victim = among[Math.floor(random.next() * among.length)]
      if (victim) {
        if (observer.isBusy(victim.name)) interrupted++
        observer.killing(victim.name)
        killed.add(victim.name)
        await fleet.kill(victim)
        members[members.indexOf(victim)] = fleet.worker(url)
      } else kills--
      await pause(20 + random.next() * 200)
    }
    const unfinished = async (): Promise<number> =>
      (await engine.jobs.list({ states: ['available', 'active', 'retryable'], limit: 1000 })).length
    await until('every job has ended', async () => (await unfinished()) === 0, 300_000)
    for (const member of members) await until(`${member.name} is at work`, () => member.ready, 120_000)
    for (const member of members) await fleet.stop(member)
    const seconds = Math.round((performance.now() - beganMs) / 1000)

    expect(fleet.accidents).toEqual([])
    expect(fleet.lost, 'runs taken from a worker that lived').toEqual([])
    const runs = new Map<string, Start[]>()
    for (const { id } of jobs) runs.set(id, observer.startsOf(id))
    const decidedMs = new Map<string, number[]>()
    for (const [id, starts] of runs) {
      const job = await engine.jobs.get(id)
      expect(job?.state, `job ${id}`).toBe('completed')
      expect(new Set(starts.map(({ attempt }) => attempt)).size, `${id}: no attempt starts twice`).toBe(starts.length)
      expect(job?.attempt, `${id}: the last run counts`).toBe(starts.at(-1)?.attempt)
      for (const { worker } of starts.slice(0, -1)) expect(killed, `${worker} lost ${id}`).toContain(worker)
      for (const { tenant, ageMs } of starts)
        decidedMs.set(tenant, [...(decidedMs.get(tenant) ?? []), (job?.createdAt.getTime() ?? NaN) + ageMs])
    }
    expect(observer.starts, 'starts of jobs that were never enqueued').toHaveLength([...runs.values()].flat().length)
    for (const [tenant, times] of decidedMs) {
      const sorted = times.sort((a, b) => a - b)
      const closest = Math.min(...sorted.slice(PER_SECOND).map((time, n) => time - (sorted[n] as number)))
      // `createdAt` is a whole millisecond.
      expect(closest, `${tenant}: ms between decisions`).toBeGreaterThan(1000 + GUARD_MS - 1)
    }
    expect(observer.mostOpen).toBeLessThanOrEqual(AT_ONCE)
    for (const { limit, key, active, waiting } of [
      ...(await engine.limits.inspect('tenant')),
      ...(await engine.limits.inspect('fleet')),
    ])
      expect({ limit, key, active, waiting }).toEqual({ limit, key, active: 0, waiting: 0 })
    // Else the kills met no work: of every second the test waits for a busy process.
    expect(interrupted).toBeGreaterThanOrEqual(Math.floor(kills / 5))
    const again = observer.starts.length - runs.size
    console.info(JSON.stringify({ store: kind.name, seconds, kills, jobs: jobs.length, interrupted, again }))
  },
)
