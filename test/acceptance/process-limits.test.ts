// The promises of limits to flows, shown on single jobs of real processes: scale and crash of waiting jobs, and one hot key of many nodes.
import { describe, expect, test } from 'vitest'
import { canSkew } from '../skew.ts'
import { everyStore } from '../stores.ts'
import { expectOncePerAttempt, expectWithinBudget, rate, type Start } from './harness.ts'
import { calls, type NotedStart, nowUs, pause, ProcessFleet } from './process-fleet.ts'

const STORES = await everyStore('the acceptance cases of limits over processes')
/** As they were decided: the instant of a handler's note depends on how busy the machine is. */
const decisions = (starts: readonly NotedStart[]): { atUs: number; weight: number }[] =>
  starts.map(({ decidedUs }) => ({ atUs: decidedUs, weight: 1 }))

/** Later than this, something hangs. */
const HANG_S = 20

const secondsOf = (starts: readonly Start[], fromUs: number): number[] =>
  starts.map(({ atUs }) => (atUs - fromUs) / 1e6)

/** A job's number among those of its key. */
const numberOf = ({ name }: Start): number => Number(/\d+$/.exec(name)?.[0])

describe.each(STORES)('waiting jobs of processes, on $name', (kind) => {
  test('outlive a kill in order and within their budget, delay no other job, and are gone at once when cancelled', async () => {
    const WAITING = 1000
    const policy = rate(20, 1)
    const fleet = new ProcessFleet(kind, policy)
    const first = await fleet.start()
    const fromUs = await fleet.enqueue(first, calls(WAITING, 'A'))
    await fleet.enqueue(first, [
      { key: 'B', name: 'B1', delay: 100 },
      { key: 'C', name: 'C1', delay: 5000 },
    ])
    await pause(2500 - (nowUs() - fromUs) / 1000)
    await fleet.kill(first)
    const untilTheKill = fleet.starts()
    const [b = NaN] = secondsOf(
      untilTheKill.filter(({ key }) => key === 'B'),
      fromUs,
    )
    expect(b, 'the start of the job that was put off by 100 ms').toBeLessThanOrEqual(HANG_S)
    await pause(1500)
    expect(fleet.starts().length, 'starts while nobody is there').toBe(untilTheKill.length)
    await fleet.start()
    const readyUs = nowUs()
    await fleet.started(untilTheKill.length + 20 + 20)
    await pause(Math.max(7000 - (nowUs() - fromUs) / 1000, 3000 - (nowUs() - readyUs) / 1000))

    const reader = fleet.reader()
    const beganUs = nowUs()
    for (;;) {
      const waiting = await reader.jobs.list({ states: ['available'], limit: 1000 })
      if (waiting.length === 0) break
      await Promise.all(waiting.map(({ id }) => reader.jobs.cancel(id)))
    }
    expect((nowUs() - beganUs) / 1e6, 's until all that waited were gone').toBeLessThanOrEqual(HANG_S)
    const untilTheEnd = fleet.starts()
    await pause(300)
    // One that was claimed before it could be cancelled may have been on its way.
    expect(fleet.starts().length).toBeLessThanOrEqual(untilTheEnd.length + 1)

    const starts = fleet.starts()
    const ofA = starts.filter(({ key }) => key === 'A')
    expectWithinBudget(policy, decisions(ofA), 'A')
    expectOncePerAttempt(starts)
    const again = ofA.filter(({ attempt }) => attempt > 1)
    expect(again.length, 'jobs that the kill interrupted').toBeLessThanOrEqual(20)
    const firsts = ofA.filter(({ attempt }) => attempt === 1).toSorted((x, y) => numberOf(x) - numberOf(y))
    const decided = firsts.map(({ decidedUs }) => decidedUs)
    expect(decided).toEqual(decided.toSorted((x, y) => x - y))
    const [c = NaN] = secondsOf(
      starts.filter(({ key }) => key === 'C'),
      fromUs,
    )
    expect(c, 'the start of the job that was put off by 5 s').toBeGreaterThanOrEqual(5)
    expect(c).toBeLessThanOrEqual(HANG_S)
    expect(fleet.errors).toEqual([])
  })
})

describe.each(STORES)('one hot key of four processes whose clocks disagree, on $name', (kind) => {
  test('is used to the full and never above, without an error', async () => {
    const SECONDS = 6
    // A rate that any machine can keep up with: else it is that which is measured.
    const PER_SECOND = 50
    const policy = rate(PER_SECOND, 1)
    const fleet = new ProcessFleet(kind, policy, { default: { concurrency: 16 } })
    const skewsS = canSkew() ? [-5, 0, 5, 0] : [0, 0, 0, 0]
    const workers = await Promise.all(skewsS.map((skewS) => fleet.start({ skewS })))
    const beganUs = nowUs()
    const [first] = workers
    if (!first) throw new Error('there are no workers')
    for (let second = 0; second < SECONDS + 2; second++)
      await fleet.enqueue(first, calls(PER_SECOND, 'hot', second * PER_SECOND + 1))
    await pause(SECONDS * 1000 - (nowUs() - beganUs) / 1000)
    const starts = await fleet.started(PER_SECOND * SECONDS)
    expectWithinBudget(policy, decisions(starts), 'hot')
    const fromUs = Math.min(...starts.map(({ decidedUs }) => decidedUs))
    const within = starts.filter(({ decidedUs }) => decidedUs < fromUs + (SECONDS - 1) * 1e6).length
    // Half of it unused tells a hang; `several-limits` and `composition` use one fully by a manual clock.
    expect(within / (PER_SECOND * SECONDS), 'of the budget, with its burst').toBeGreaterThanOrEqual(0.5)
    expectOncePerAttempt(starts)
    expect(fleet.errors).toEqual([])
  })
})
