// Plain code of several processes at one quick budget, on a clock that the test moves.
import { describe, expect, it } from 'vitest'
import { internalsOf } from '../../src/engine/internals.ts'
import { type Limit, limit, type Sluice, task } from '../../src/exports/index.ts'
import { FlowsHarness, STORES } from '../flows/flows-harness.ts'

const BURST = 100
const hot = limit('hot', { rate: 1000, per: '1s', burst: BURST })

describe.each(STORES)('calls of several processes at 1,000 starts a second on $name', (kind) => {
  /** Processes of plain code. Callers of each start one after the other until the test stops them. */
  async function crowd(callers: readonly number[], use: Limit = hot) {
    const harness = new FlowsHarness(kind)
    const { clock } = harness
    const engines: Sluice[] = []
    for (const _ of callers) engines.push(await harness.start({ tasks: [] }))
    const stores = await Promise.all(engines.map(async (engine) => (await internalsOf(engine).open()).store))
    const starts = callers.map(() => 0)
    const decisions = { claims: 0, empty: 0, calls: 0 }
    const end = { reached: false }
    for (const store of stores) {
      const claim = store.claim.bind(store)
      store.claim = async (request) => {
        const claimed = await claim(request)
        decisions[claimed.looks > 0 ? 'claims' : 'empty']++
        return claimed
      }
      const acquire = store.budgets.acquire.bind(store.budgets)
      store.budgets.acquire = (...given) => {
        decisions.calls++
        return acquire(...given)
      }
    }
    const work = async (i: number): Promise<void> => {
      while (!end.reached) {
        await engines[i]?.limits.acquire([use])
        starts[i] = (starts[i] ?? 0) + 1
      }
    }
    const errors: unknown[] = []
    const note = (error: unknown): void => void errors.push(error)
    const working = callers.flatMap((count, i) => Array.from({ length: count }, () => work(i).catch(note)))
    const stop = async (): Promise<void> => {
      end.reached = true
      await clock.advance('1s')
      await Promise.all(working)
      expect(errors).toEqual([])
    }
    return { harness, clock, engines, stores, starts, stop, decisions }
  }
  const sum = (numbers: readonly number[]): number => numbers.reduce((all, each) => all + each, 0)

  it('use it up and leave none of them out, with many starts for each claim', async () => {
    const { clock, starts, stop, decisions } = await crowd([20, 20, 20, 20])
    await clock.advance(500)
    const all = sum(starts)
    expect(all).toBeLessThanOrEqual(BURST + 500)
    expect(all).toBeGreaterThanOrEqual(BURST + 450)
    // A like share is a quarter. Others may go first by up to half a second of their starts.
    expect(Math.min(...starts)).toBeGreaterThan(all / 20)
    expect(decisions.claims).toBeLessThan(all / 8)
    await stop()
  })

  it('come again when the others had their turns, also where all of a process have started', async () => {
    const { clock, starts, stop, decisions } = await crowd(Array.from({ length: 8 }, () => 4))
    await clock.advance(200)
    const [before, { claims, empty, calls }] = [sum(starts), { ...decisions }]
    await clock.advance(800)
    const all = sum(starts) - before
    expect(all).toBeGreaterThanOrEqual(780)
    expect(Math.min(...starts)).toBeGreaterThan(all / 16)
    // No call asks in the meantime, and a claim hardly ever finds nothing.
    expect(decisions.calls - calls).toBe(0)
    expect(decisions.empty - empty).toBeLessThan(decisions.claims - claims)
    await stop()
  })

  it('let one that needs many units start, and one with a single caller', async () => {
    const { clock, engines, starts, stop } = await crowd([10, 1])
    await clock.advance(50)
    const heavy = { started: false }
    const started = engines[1]?.limits.acquire([hot.weight(BURST)]).then(() => (heavy.started = true))
    // Half a second in which others may go first, and then its units.
    for (let ms = 0; ms < 700 && !heavy.started; ms += 50) await clock.advance(50)
    expect(heavy.started).toBe(true)
    await started
    expect(starts[1]).toBeGreaterThan(5)
    await stop()
  })

  it('go in turn with jobs that wait for the same', async () => {
    const { harness, clock, starts, stop } = await crowd([20, 20])
    await clock.advance(100)
    let jobs = 0
    const job = task('job', { limits: [hot], run: () => void jobs++ })
    await harness.start({ tasks: [job] })
    await job.enqueueMany(Array.from({ length: 60 }, () => undefined))
    const before = sum(starts)
    await clock.advance(150)
    // Three lanes share the starts, but for those that no job stood beside yet.
    expect(jobs).toBeGreaterThan(2)
    expect(sum(starts) - before).toBeLessThan(2 * jobs + BURST)
    await stop()
  })

  it('start once each, though the store cannot remove their tickets at once', async () => {
    const { clock, engines, stores, starts, stop } = await crowd([20, 20])
    for (const store of stores) {
      const remove = store.budgets.remove.bind(store.budgets)
      let calls = 0
      store.budgets.remove = async (...args) => {
        if (++calls % 2 === 1) throw new Error('away')
        return remove(...args)
      }
    }
    await clock.advance(300)
    expect(sum(starts)).toBeLessThanOrEqual(BURST + 300)
    expect(sum(starts)).toBeGreaterThanOrEqual(BURST + 270)
    await stop()
    const [bucket] = (await engines[0]?.limits.inspect('hot')) ?? []
    expect(bucket?.waiting).toBe(0)
  })

  it('of many callers do not rest for longer than they use where few can start at once', async () => {
    const narrow = limit('narrow', { rate: 1000, per: '1s', burst: 10 })
    const { clock, starts, stop } = await crowd([100, 1], narrow)
    await clock.advance(200)
    expect(starts[0]).toBeGreaterThan(20)
    expect(sum(starts)).toBeGreaterThan(190)
    await stop()
  })

  it('start again as soon as another process resumes their limit', async () => {
    const { clock, engines, starts, stop } = await crowd([20, 20])
    await clock.advance(100)
    await engines[0]?.limits.pause('hot')
    await clock.advance('2s')
    const before = [...starts]
    await engines[0]?.limits.resume('hot')
    await clock.advance(300)
    expect(Math.min(...starts.map((each, i) => each - (before[i] ?? 0)))).toBeGreaterThan(60)
    await stop()
  })

  it.each([100, 400])('start also %i ms after the last caller of a process has left', async (gapMs) => {
    const slower = limit('slower', { rate: 100, per: '1s' })
    const { clock, engines } = await crowd([0, 0])
    await engines[0]?.limits.acquire([slower.weight(100)])
    const calls = engines.map(({ limits }) => {
      const end = new AbortController()
      const ask = async (): Promise<unknown> =>
        limits.acquire([slower], { wait: true, signal: end.signal }).catch((error: unknown) => error)
      return { end, waiting: Array.from({ length: 20 }, ask) }
    })
    await clock.advance(50)
    calls[1]?.end.abort()
    await clock.advance(gapMs)
    let started = false
    const late = engines[1]?.limits.acquire([slower], { wait: true }).then(() => (started = true))
    await clock.advance(10)
    calls[0]?.end.abort()
    await clock.advance('2s')
    expect(started).toBe(true)
    await late
    await Promise.all(calls.flatMap(({ waiting }) => waiting))
  })

  it('start before a caller leaves that came while others had their turns', async () => {
    const slower = limit('slower', { rate: 100, per: '1s' })
    const { clock, engines } = await crowd([0, 0])
    await engines[0]?.limits.acquire([slower.weight(100)])
    const calls = engines.map(({ limits }) => {
      const end = new AbortController()
      const ask = async (wait: number | true): Promise<unknown> =>
        limits.acquire([slower], { wait, signal: end.signal }).catch((error: unknown) => error)
      return { end, ask, waiting: Array.from({ length: 20 }, async () => ask(true)) }
    })
    await clock.advance(50)
    calls[0]?.end.abort()
    const late = calls[1]?.ask(250)
    await clock.advance(250)
    expect(await late).not.toBeInstanceOf(Error)
    calls[1]?.end.abort()
    await Promise.all(calls.flatMap(({ waiting }) => waiting))
  })

  it.each([1, 2])(
    'use a strict limit up beside %i processes that fell silent, each with its calls first',
    async (silent) => {
      const strict = limit('strict', { rate: 200, per: '1s', burst: 1 })
      const { clock, starts, stores, stop } = await crowd([...Array.from({ length: silent }, () => 10), 20, 20], strict)
      await clock.advance(200)
      const ends: (() => void)[] = []
      for (const store of stores.slice(0, silent)) {
        const claim = store.claim.bind(store)
        store.claim = async (request) => {
          await new Promise<void>((resolve) => ends.push(resolve))
          return claim(request)
        }
      }
      const before = sum(starts.slice(silent))
      await clock.advance('3s')
      // Each silence is waited for once in half a second, and not at every start.
      expect(sum(starts.slice(silent)) - before).toBeGreaterThan(500)
      for (const store of stores.slice(0, silent)) Reflect.deleteProperty(store, 'claim')
      for (const end of ends) end()
      await stop()
    },
  )
})
