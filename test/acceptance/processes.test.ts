import { describe, expect, test } from 'vitest'
import { everyStore } from '../stores.ts'
import { every, rate, type Start, times } from './harness.ts'
import { calls, nowUs, pause, ProcessFleet } from './process-fleet.ts'

// Real processes on the real clock: a start is never early. A busy machine may be late; later than this, something hangs.
const HANG_S = 20

/** By position: never early, and not late where a worker was there to start them. */
function expectOnTime(starts: readonly Start[], fromUs: number, expected: readonly number[], deafUntilS = 0): void {
  for (const [i, seconds] of expected.entries()) {
    const at = ((starts[i]?.atUs ?? Infinity) - fromUs) / 1e6
    expect(at, `start ${i + 1}`).toBeGreaterThanOrEqual(seconds - 0.005)
    expect(at, `start ${i + 1}`).toBeLessThanOrEqual(Math.max(seconds, deafUntilS) + HANG_S)
  }
}

const STORES = await everyStore('the acceptance cases of real processes')

// Stores one after the other: twice as many processes at once would measure the machine.
describe.each(STORES)('real processes on $name', (kind) => {
  test.concurrent('start a burst at once, then one job per interval', async () => {
    const fleet = new ProcessFleet(kind, rate(15, 3))
    const fromUs = await fleet.enqueue(await fleet.start(), calls(20, 'A'))
    expectOnTime(await fleet.started(20), fromUs, [...times(15, 0), ...every(0.2, 0.2, 1)])
    await fleet.finish(20)
  })

  test.concurrent('let one key’s backlog delay no other key', async () => {
    const fleet = new ProcessFleet(kind, rate(1, 0.9), { default: { concurrency: 3 } })
    const fromUs = await fleet.enqueue(await fleet.start(), [...calls(5, 'A'), ...calls(1, 'B')])
    const starts = await fleet.started(6)
    expectOnTime(
      starts.filter(({ key }) => key === 'B'),
      fromUs,
      [0],
    )
    expectOnTime(
      starts.filter(({ key }) => key === 'A'),
      fromUs,
      [0, 0.9, 1.8, 2.7, 3.6],
    )
    await fleet.finish(6)
  })

  test.concurrent('that are killed and started again spend no second burst, and lose nothing', async () => {
    const fleet = new ProcessFleet(kind, rate(15, 3))
    const first = await fleet.start()
    const fromUs = await fleet.enqueue(first, calls(60, 'A'))
    await pause(1500 - (nowUs() - fromUs) / 1000)
    await fleet.kill(first)
    await pause(50)
    await fleet.start()
    const readyS = (nowUs() - fromUs) / 1e6
    const starts = await fleet.started(60)
    expectOnTime(starts, fromUs, [...times(15, 0), ...every(0.2, 0.2, 9)], readyS)
    await fleet.finish(60, 1)
  })

  test.concurrent('share one budget over two queues', async () => {
    const fleet = new ProcessFleet(kind, rate(2, 0.035), { default: { concurrency: 5 }, exports: { concurrency: 5 } })
    const both = calls(8, 'A').map((call, i) => ({ ...call, queue: i % 2 === 0 ? 'default' : 'exports' }))
    const fromUs = await fleet.enqueue(await fleet.start(), both)
    expectOnTime(await fleet.started(8), fromUs, [0, 0, ...every(0.0175, 0.0175, 0.105)])
    await fleet.finish(8)
  })

  test.concurrent('on one store share one budget, and one that joins runs nothing again', async () => {
    const fleet = new ProcessFleet(kind, rate(15, 3))
    const first = await fleet.start()
    const second = await fleet.start()
    const began = await Promise.all([fleet.enqueue(first, calls(30, 'A')), fleet.enqueue(second, calls(30, 'A', 31))])
    await fleet.started(20)
    await fleet.start()
    const starts = await fleet.started(60)
    // Either of them may be the first to enqueue.
    expectOnTime(starts, Math.min(...began), [...times(15, 0), ...every(0.2, 0.2, 9)])
    await fleet.finish(60)
  })

  test.concurrent('that hold starts of one strict budget keep to it together', async () => {
    const fleet = new ProcessFleet(kind, rate(1, 0.02))
    const [first, second] = [await fleet.start(), await fleet.start()]
    await Promise.all([fleet.enqueue(first, calls(30, 'A')), fleet.enqueue(second, calls(30, 'A', 31))])
    const starts = await fleet.started(60)
    const decided = starts.map(({ decidedUs }) => decidedUs).toSorted((a, b) => a - b)
    const gaps = decided.slice(1).map((at, i) => at - decided[i]!)
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(20_000)
    // Charged for the next instant, not for that of the claim.
    expect(gaps.filter((gap) => gap === 20_000).length).toBeGreaterThan(0)
    for (const { decidedUs, wallMs } of kind.name === 'postgres' ? starts : [])
      expect(wallMs * 1000).toBeGreaterThanOrEqual(decidedUs - 5000)
    await fleet.finish(60)
  })
})

describe.each(STORES)('a series that every process registers, on $name', (kind) => {
  test('fires each occurrence once and never early, in company and after a kill', async () => {
    const fleet = new ProcessFleet(kind, rate(1000, 1))
    const tickMs = 200
    const [first] = [await fleet.start({ tickMs }), await fleet.start({ tickMs })]
    await fleet.started(10)
    await fleet.kill(first)
    const starts = await fleet.started(20)
    const dues = starts.map((start) => Date.parse(start.name))
    expect(dues).toEqual(dues.map((_, i) => (dues[0] ?? 0) + i * tickMs))
    // The store's clock and the wall agree but for the moment at which each was read.
    for (const [i, start] of starts.entries())
      expect(start.wallMs, `occurrence ${i + 1}`).toBeGreaterThanOrEqual((dues[i] ?? 0) - 20)
  })
})
