import { expect, test } from 'vitest'
import { type Job, seededRandom, type Sluice } from '../../src/exports/index.ts'
import { comesTrue, Fleet, type Member, pause, until } from './fleet.ts'
import { AT_ONCE, callTask, GUARD_MS, PER_SECOND } from './tasks.ts'
import { monotonicUs, type Start, Observer } from './observer.ts'

const KILLS = 24
/** Few enough that all processes together could run twice what the tenants’ budgets allow. */
const TENANTS = 8
const SEED = 24

/** Seeded durations: `between(least, most)` in ms. */
function durations(seed: number): (least: number, most: number) => number {
  const random = seededRandom(seed)
  return (least, most) => least + random.next() * (most - least)
}

const nameOf = ({ id, attempt }: { readonly id: string; readonly attempt: number }): string => `${id} ${attempt}`

/** The fleet's record beside the store's: who was killed when, and which of its runs had not settled then. */
class Rampage {
  readonly inFlight = new Set<string>()
  /** Runs that had settled when their worker was killed. */
  readonly settled = new Set<string>()
  readonly killedAtUs = new Map<string, number>()
  killsWithWork = 0

  async kill(fleet: Fleet, observer: Observer, engine: Sluice, victim: Member): Promise<void> {
    observer.killing(victim.name)
    this.killedAtUs.set(victim.name, monotonicUs())
    await fleet.kill(victim)
    // Time for the observer to read what still lies in its sockets.
    await pause(10)
    const before = this.inFlight.size
    for (const start of observer.starts.filter(({ worker }) => worker === victim.name)) {
      const job = await engine.jobs.get(start.id)
      const ended = job?.state === 'completed' && job.attempt === start.attempt
      ;(ended ? this.settled : this.inFlight).add(nameOf(start))
    }
    if (this.inFlight.size > before) this.killsWithWork++
  }
}

/** The shortest time within which one more start than allowed followed upon another. @param times of one tenant, in order */
function closest(times: readonly number[]): number {
  return Math.min(...times.slice(PER_SECOND).map((time, i) => time - (times[i] as number)))
}

/** In every half-open second, wherever it begins, at most `PER_SECOND` arrivals of one tenant; in a second and the guard, of decisions. */
async function expectTermsKept(starts: readonly Start[], engine: Sluice): Promise<void> {
  for (const tenant of new Set(starts.map((start) => start.tenant))) {
    const own = starts.filter((start) => start.tenant === tenant)
    expect(closest(own.map(({ atUs }) => atUs)), `${tenant}: µs`).toBeGreaterThanOrEqual(1_000_000)
    const decidedMs = await Promise.all(
      own.map(async ({ id, ageMs }) => ((await engine.jobs.get(id))?.createdAt.getTime() ?? NaN) + ageMs),
    )
    const closestMs = closest(decidedMs.sort((a, b) => a - b))
    // `createdAt` is a whole millisecond.
    expect(closestMs, `${tenant}: ms`).toBeGreaterThan(1000 + GUARD_MS - 1)
    // Else this budget held nothing back, and keeping it would prove nothing.
    expect(closestMs, `${tenant}: ms`).toBeLessThan(1000 + 2 * GUARD_MS)
  }
}

/** A job runs again only where its run had not settled when its worker was killed, and only after the kill. */
function expectNoDoubleRuns(observer: Observer, rampage: Rampage): void {
  const { starts } = observer
  expect(new Set(starts.map(nameOf)).size, 'no attempt starts twice').toBe(starts.length)
  for (const id of new Set(starts.map((start) => start.id))) {
    const runs = observer.startsOf(id)
    for (const [i, again] of runs.slice(1).entries()) {
      const lost = runs[i] as Start
      expect(rampage.inFlight.has(nameOf(lost)), `${nameOf(lost)} of ${lost.worker} was in flight at a kill`).toBe(true)
      expect(again.atUs).toBeGreaterThan(rampage.killedAtUs.get(lost.worker) ?? Infinity)
    }
  }
}

test(`${KILLS} kills lose no job, exceed no budget, and run nothing twice but what they interrupted`, async () => {
  const rampage = new Rampage()
  const fleet = new Fleet()
  const call = callTask()
  const engine = fleet.engine([call])
  const runMs = durations(SEED)
  let mostActive = 0
  const observer = new Observer(async () => {
    mostActive = Math.max(mostActive, (await engine.jobs.list({ states: ['active'] })).length)
    await pause(runMs(5, 40))
    return 'done'
  })
  const url = await observer.listen()
  const jobs: Job<string>[] = []
  const arrive = async (eachTenant: number): Promise<void> => {
    for (let i = 0; i < TENANTS; i++)
      jobs.push(...(await call.enqueueMany(Array.from({ length: eachTenant }, () => ({ tenant: `t${i}` })))))
  }
  await arrive(40)
  const members = [fleet.worker(url), fleet.worker(url)]
  const chance = durations(SEED + 1)
  for (let kills = 0; kills < KILLS; kills++) {
    const which = chance(0, 1) < 0.5 ? 0 : 1
    const victim = members[which] as Member
    // Now and then one is killed while it is still opening the file or taking back what others left.
    if (kills % 6 !== 5) await until(`${victim.name} is at work`, () => victim.ready)
    await pause(chance(30, 300))
    // Budgets make quiet times: half of the kills wait, for a while, until they interrupt something.
    if (kills % 2 === 0) await comesTrue(1000, () => observer.isBusy(victim.name))
    await rampage.kill(fleet, observer, engine, victim)
    expect(fleet.look().faults).toEqual([])
    members[which] = fleet.worker(url)
    await arrive(4)
  }
  for (const job of jobs)
    await until(`${job.id} is completed`, async () => (await engine.jobs.get(job.id))?.state === 'completed')
  for (const member of members) await fleet.stop(member)

  expect(fleet.accidents).toEqual([])
  expect(fleet.lost, 'runs taken from a worker that lived').toEqual([])
  const { starts } = observer
  for (const { id } of jobs)
    expect((await engine.jobs.get(id))?.attempt, 'the last run is the one that counts').toBe(
      observer.startsOf(id).at(-1)?.attempt,
    )
  expectNoDoubleRuns(observer, rampage)
  await expectTermsKept(starts, engine)
  expect(observer.mostOpen).toBe(AT_ONCE)
  expect(mostActive).toBe(AT_ONCE)
  const buckets = [...(await engine.limits.inspect('tenant')), ...(await engine.limits.inspect('fleet'))]
  expect(buckets).toHaveLength(TENANTS + 1)
  for (const { limit, key, active, waiting } of buckets)
    expect({ limit, key, active, waiting }).toEqual({ limit, key, active: 0, waiting: 0 })
  expect(fleet.look()).toEqual({ faults: [], jobs: jobs.length })
  // Else the kills met no work, or nothing that had settled could have run again.
  expect(rampage.killsWithWork).toBeGreaterThanOrEqual(KILLS / 3)
  expect(rampage.settled.size).toBeGreaterThan(KILLS)
})
