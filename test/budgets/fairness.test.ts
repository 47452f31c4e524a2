// Backlogs of jobs and of plain code before one budget: neither keeps the other waiting.
import { describe, expect, it } from 'vitest'
import { input, limit, seededRandom, task } from '../../src/exports/index.ts'
import { FlowsHarness, STORES } from '../flows/flows-harness.ts'

const crm = limit('crm', { rate: 10, per: '1s', burst: 1 })

describe.each(STORES)('backlogs before one budget on $name', (kind) => {
  it('of 10,000 jobs lets a call of plain code go in its turn', async () => {
    const harness = new FlowsHarness(kind)
    const sync = task('sync', input<number>(), { limits: [crm.key('acme')], run: () => undefined })
    const engine = await harness.start({ tasks: [sync] })
    await sync.enqueueMany(Array.from({ length: 10_000 }, (_, i) => i))
    await harness.clock.advance('1s')
    const began = harness.at
    const waits: number[] = []
    for (let i = 0; i < 3; i++) {
      const taken = engine.limits.acquire([crm.key('acme')]).then(() => waits.push(harness.at - began))
      await harness.clock.advance('300ms')
      await taken
    }
    // Every second start at the latest.
    expect(waits[0]).toBeLessThanOrEqual(0.2)
    expect(waits[2]).toBeLessThanOrEqual(0.9)
  })

  it('of 1,000 calls of plain code lets a job go in its turn, and loses no call', async () => {
    const harness = new FlowsHarness(kind)
    const starts: number[] = []
    const sync = task('sync', { limits: [crm.key('acme')], run: () => void starts.push(harness.at) })
    const engine = await harness.start({ tasks: [sync] })
    const abort = new AbortController()
    let granted = 0
    const calls = Array.from({ length: 1000 }, () =>
      engine.limits.acquire([crm.key('acme')], { signal: abort.signal }).then(
        () => ++granted,
        () => 0,
      ),
    )
    await harness.clock.advance('1s')
    expect(granted).toBe(11)
    await sync.enqueueMany([undefined, undefined, undefined])
    await harness.clock.advance('1s')
    expect(starts.length).toBe(3)
    expect(starts[0]).toBeLessThanOrEqual(1.2)
    expect(granted).toBe(18)
    abort.abort()
    await Promise.all(calls)
    await harness.clock.advance('1s')
    expect((await engine.limits.inspect('crm', 'acme'))[0]?.waiting).toBe(0)
    await engine.limits.acquire([crm.key('acme')], { wait: false })
  })

  it('never exceed it together, whatever waits, aborts and is given back', async () => {
    const random = seededRandom(kind.name === 'sqlite' ? 7 : 8)
    const pick = (below: number): number => Math.floor(random.next() * below)
    const rate = limit('rate', { rate: 20, per: '1s', burst: 3 })
    const window = limit('window', { window: 'sliding', max: 15, per: '1s', guard: 0 })
    const slots = limit('slots', { concurrency: 3 })
    const harness = new FlowsHarness(kind)
    const starts: { readonly atUs: number; readonly weight: number }[] = []
    let running = 0
    let most = 0
    const work = async (weight: number): Promise<void> => {
      starts.push({ atUs: harness.clock.monotonicUs(), weight })
      most = Math.max(most, ++running)
      await harness.clock.sleep(pick(300))
      running--
    }
    const uses = (key: string, weight: number) => [rate.key(key, { weight }), window.key(key), slots]
    const sync = task('sync', input<{ readonly weight: number }>(), {
      limits: [rate.by(() => 'k', { weight: (job) => job.weight }), window.key('k'), slots],
      run: ({ weight }) => work(weight),
    })
    const engine = await harness.start({ tasks: [sync] })
    const ends: Promise<unknown>[] = []
    for (let i = 0; i < 60; i++) {
      const weight = 1 + pick(3)
      if (pick(2) === 0) await sync.enqueue({ weight }, { priority: pick(3) })
      else {
        const abort = new AbortController()
        const call = engine.limits
          .run(uses('k', weight), () => work(weight), {
            priority: pick(3),
            signal: abort.signal,
            wait: pick(5) === 0 ? '300ms' : true,
          })
          .catch(() => undefined)
        ends.push(call)
        if (pick(5) === 0) harness.clock.setTimer(() => abort.abort(), pick(500))
      }
      await harness.clock.advance(pick(120))
    }
    await harness.clock.advance('1m')
    await Promise.all(ends)
    expect(starts.length).toBeGreaterThan(30)
    expect(most).toBeLessThanOrEqual(3)
    for (const [i, { atUs: fromUs }] of starts.entries()) {
      let units = 0
      let count = 0
      for (const { atUs, weight } of starts.slice(i)) {
        units += weight
        count++
        expect(units).toBeLessThanOrEqual(3 + (20 * (atUs - fromUs)) / 1e6 + 1e-6)
        if (atUs - fromUs < 1e6) expect(count).toBeLessThanOrEqual(15)
      }
    }
    expect((await engine.limits.inspect('slots'))[0]).toMatchObject({ active: 0, waiting: 0 })
  })
})
