// Calls of plain code that are granted ahead, each for its own instant, on a clock that the test moves.
import { describe, expect, it } from 'vitest'
import { SluiceError } from '../../src/base/errors.ts'
import { internalsOf } from '../../src/engine/internals.ts'
import { type Duration, input, limit, RateLimited, type Sluice, task } from '../../src/exports/index.ts'
import { FlowsHarness, STORES } from '../flows/flows-harness.ts'

const strict = limit('strict', { rate: 1000, per: '1s', burst: 1 })

describe.each(STORES)('calls of a strict limit granted ahead on $name', (kind) => {
  async function stage(ahead: Duration = '20ms') {
    const harness = new FlowsHarness(kind)
    const { clock } = harness
    const engine = await harness.start({ tasks: [], ahead })
    const { store } = await internalsOf(engine).open()
    const counts = { claims: 0, calls: 0 }
    const claim = store.claim.bind(store)
    store.claim = (request) => (counts.claims++, claim(request))
    const acquire = store.budgets.acquire.bind(store.budgets)
    store.budgets.acquire = (...given) => (counts.calls++, acquire(...given))
    await engine.limits.acquire([strict])
    const begunUs = clock.monotonicUs()
    return { harness, clock, engine, store, counts, ms: () => (clock.monotonicUs() - begunUs) / 1000 }
  }

  /** Callers that start one after the other, and the instants of their starts in ms. */
  function callers(count: number, { engine, ms }: { readonly engine: Sluice; readonly ms: () => number }) {
    const starts: number[] = []
    const end = { reached: false }
    const work = async (): Promise<void> => {
      while (!end.reached) {
        await engine.limits.acquire([strict])
        starts.push(ms())
      }
    }
    const working = Array.from({ length: count }, () => work().catch(() => undefined))
    return { starts, end, working }
  }

  it('start at their own instants, many for each claim, and use the whole budget', async () => {
    const on = await stage()
    const { starts, end, working } = callers(100, on)
    await on.clock.advance(300)
    const { claims, calls } = on.counts
    expect(starts).toEqual(Array.from({ length: 300 }, (_, i) => i + 1))
    // Ten instants or more of each claim, and no call asks for what those before it wait for.
    expect(claims).toBeLessThan(60)
    expect(calls).toBeLessThan(10)
    end.reached = true
    await on.clock.advance(200)
    await Promise.all(working)
  })

  it('start one by one where nothing is granted ahead', async () => {
    const on = await stage('0ms')
    const { starts, end, working } = callers(20, on)
    await on.clock.advance(40)
    expect(starts).toEqual(Array.from({ length: 40 }, (_, i) => i + 1))
    end.reached = true
    await on.clock.advance(100)
    await Promise.all(working)
  })

  it.each(['a pause', 'a penalty', 'an override'] as const)(
    'go back at %s, and start behind it in their order',
    async (change) => {
      const { clock, engine, ms } = await stage()
      const { limits } = engine
      const order: number[] = []
      const starts: number[] = []
      const call = async (i: number): Promise<void> => {
        await limits.acquire([strict])
        order.push(i)
        starts.push(ms())
      }
      const calls = Array.from({ length: 10 }, (_, i) => call(i))
      await clock.advance(3)
      if (change === 'a pause') await limits.pause(strict)
      if (change === 'a penalty') await limits.penalize(strict, undefined, '100ms')
      if (change === 'an override') await limits.override(strict, undefined, { rate: 10 })
      await clock.advance(99)
      expect(order.length).toBeLessThanOrEqual(change === 'an override' ? 4 : 3)
      if (change === 'a pause') await limits.resume(strict)
      if (change === 'an override') await limits.clearOverride(strict)
      await clock.advance(120)
      await Promise.all(calls)
      expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
      for (const [i, at] of starts.entries()) expect(at - (starts[i - 1] ?? 0)).toBeGreaterThanOrEqual(1)
    },
  )

  it('return the units of a caller that leaves before its instant', async () => {
    const { clock, engine, ms } = await stage()
    const leaving = new AbortController()
    const starts: number[] = []
    const stays = engine.limits.acquire([strict]).then(() => starts.push(ms()))
    const leaves = engine.limits.acquire([strict], { signal: leaving.signal }).catch(() => 'left')
    await clock.advance(0.5)
    leaving.abort()
    expect(await leaves).toBe('left')
    const next = engine.limits.acquire([strict]).then(() => starts.push(ms()))
    await clock.advance(2)
    await Promise.all([stays, next])
    expect(starts).toEqual([1, 2])
  })

  it('return their units at the end of their engine', async () => {
    const { harness, clock, engine, ms } = await stage('1s')
    const calls = Array.from({ length: 500 }, () =>
      engine.limits.acquire([strict]).then(
        () => 'started',
        () => 'refused',
      ),
    )
    await clock.advance(100)
    await harness.stop(engine)
    const ends = await Promise.all(calls)
    const started = ends.filter((end) => end === 'started').length
    expect(started).toBeLessThan(500)
    const [stoppedMs, second] = [ms(), await harness.start({ tasks: [] })]
    const next = second.limits.acquire([strict])
    await clock.advance(1)
    await next
    // One instant may have been taken when it stopped.
    expect(ms()).toBeLessThanOrEqual(stoppedMs + 1)
    expect(started).toBeGreaterThanOrEqual(100)
  })

  it('start in the order of their callers, though the store fails at the instant of one', async () => {
    const { clock, engine, store } = await stage()
    const both = limit('both', { rate: 1000, per: '1s', burst: 1, concurrency: 100 })
    await (await engine.limits.acquire([both])).release()
    const begin = store.budgets.begin.bind(store.budgets)
    const state = { claiming: false, failed: false }
    store.budgets.begin = async (...given) => {
      const fails = state.claiming && !state.failed
      state.failed ||= fails
      if (fails) throw new SluiceError('store.io', 'The connection was lost.', { lasts: 'passes' })
      return begin(...given)
    }
    const claim = store.claim.bind(store)
    store.claim = async (request) => {
      state.claiming = true
      const answer = await claim(request)
      await clock.sleep(2)
      state.claiming = false
      return answer
    }
    const order: number[] = []
    const calls = Array.from({ length: 60 }, async (_, i) => {
      const permit = await engine.limits.acquire([both])
      order.push(i)
      await permit.release()
    })
    await clock.advance('20s')
    expect(state.failed).toBe(true)
    expect(order).toEqual(Array.from({ length: 60 }, (_, i) => i))
    await Promise.all(calls)
    expect((await engine.limits.inspect('both'))[0]).toMatchObject({ active: 0, waiting: 0 })
  })

  it('are claimed less and less often while their permits cannot be written', async () => {
    const { clock, engine, store, counts } = await stage()
    const one = limit('one', { concurrency: 1 })
    const held = await engine.limits.acquire([one])
    const begin = store.budgets.begin.bind(store.budgets)
    store.budgets.begin = () => Promise.reject(new SluiceError('store.io', 'Lost.', { lasts: 'passes' }))
    const waits = engine.limits.acquire([one])
    await clock.advance(10)
    await held.release()
    counts.claims = 0
    await clock.advance('60s')
    expect(counts.claims).toBeGreaterThan(5)
    expect(counts.claims).toBeLessThan(100)
    store.budgets.begin = begin
    await clock.advance('20s')
    await (await waits).release()
    expect((await engine.limits.inspect('one'))[0]).toMatchObject({ active: 0, waiting: 0 })
  })

  it('leave no row behind when their engine stops', async () => {
    const { harness, clock, engine, store } = await stage()
    const remove = store.budgets.remove.bind(store.budgets)
    store.budgets.remove = () => Promise.reject(new SluiceError('store.io', 'Lost.', { lasts: 'passes' }))
    const calls = Array.from({ length: 3 }, () => engine.limits.acquire([strict]))
    await clock.advance(5)
    await Promise.all(calls)
    store.budgets.remove = remove
    await harness.stop(engine)
    const second = await harness.start({ tasks: [] })
    // A row that is left would hold a permit now.
    await second.limits.override('strict', undefined, { concurrency: 1 })
    expect((await second.limits.inspect('strict'))[0]).toMatchObject({ active: 0 })
  })

  it('return the permits that another process gives to their rows by a change', async () => {
    const { harness, clock, engine, store } = await stage()
    const other = await harness.start({ tasks: [] })
    const remove = store.budgets.remove.bind(store.budgets)
    store.budgets.remove = () => Promise.reject(new SluiceError('store.io', 'Lost.', { lasts: 'passes' }))
    const calls = Array.from({ length: 3 }, () => engine.limits.acquire([strict]))
    await clock.advance(5)
    await Promise.all(calls)
    await other.limits.override('strict', undefined, { concurrency: 1 })
    expect((await other.limits.inspect('strict'))[0]).toMatchObject({ active: 3 })
    store.budgets.remove = remove
    const next = engine.limits.acquire([strict])
    await clock.advance('10s')
    await (await next).release()
    expect((await other.limits.inspect('strict'))[0]).toMatchObject({ active: 0, waiting: 0 })
  })

  it('hold one permit each, though the answer to their begin was lost', async () => {
    const { clock, engine, store } = await stage()
    const both = limit('both', { rate: 1000, per: '1s', burst: 1, concurrency: 100 })
    await (await engine.limits.acquire([both])).release()
    const begin = store.budgets.begin.bind(store.budgets)
    let lost = false
    store.budgets.begin = async (...given) => {
      const begun = await begin(...given)
      if (lost) return begun
      lost = true
      throw new SluiceError('store.io', 'The answer was lost.', { lasts: 'passes' })
    }
    const calls = Array.from({ length: 10 }, async () => (await engine.limits.acquire([both])).release())
    await clock.advance('20s')
    await Promise.all(calls)
    expect((await engine.limits.inspect('both'))[0]).toMatchObject({ active: 0, waiting: 0 })
  })

  it('are stored once, though the answer to their begin comes late', async () => {
    const { clock, engine, store } = await stage()
    const both = limit('both', { rate: 1000, per: '1s', burst: 1, concurrency: 100 })
    await (await engine.limits.acquire([both])).release()
    let stored = 0
    const enqueue = store.enqueue.bind(store)
    store.enqueue = (jobs, ...more) => {
      stored += jobs.length
      return enqueue(jobs, ...more)
    }
    const begin = store.budgets.begin.bind(store.budgets)
    store.budgets.begin = async (...given) => {
      const begun = await begin(...given)
      await clock.sleep(20_000)
      return begun
    }
    const calls = Array.from({ length: 5 }, async () => (await engine.limits.acquire([both])).release())
    await clock.advance('60s')
    await Promise.all(calls)
    expect(stored).toBe(5)
  })

  it('have begun, or have not, when a pause resolves', async () => {
    const { clock, engine, store } = await stage()
    const both = limit('both', { rate: 1000, per: '1s', burst: 1, concurrency: 100 })
    await (await engine.limits.acquire([both])).release()
    const begin = store.budgets.begin.bind(store.budgets)
    store.budgets.begin = async (...given) => {
      await clock.sleep(3)
      return begin(...given)
    }
    let started = 0
    const calls = Array.from({ length: 20 }, async () => {
      const permit = await engine.limits.acquire([both])
      started++
      await permit.release()
    })
    await clock.advance(5)
    const paused = engine.limits.pause('both')
    let atPause = -1
    void paused.then(() => (atPause = started))
    await clock.advance(50)
    await paused
    expect(atPause).toBe(started)
    await engine.limits.resume('both')
    await clock.advance(200)
    await Promise.all(calls)
    expect(started).toBe(20)
  })

  it.each(['a call', 'a job'])('go back with those of the other kind where %s is refused', async (refused) => {
    const { harness, clock } = await stage()
    const crm = limit('crm', { rate: 1000, per: '1s', burst: 1 })
    let starts = 0
    let refusals = 0
    const begin = (first: boolean): void => {
      starts++
      if (!first || refusals > 0) return
      refusals++
      throw new RateLimited({ retryAfter: '1s' })
    }
    const sync = task('sync', input<number>(), { limits: [crm], run: (n) => begin(refused === 'a job' && n === 0) })
    const engine = await harness.start({ tasks: [sync], ahead: '20ms', queues: { default: { concurrency: 100 } } })
    let closed = -1
    engine.on('rate_limit.dynamic_adjusted', () => (closed = starts))
    const call = async (): Promise<unknown> =>
      engine.limits.run([crm], () => begin(refused === 'a call')).catch(() => (closed = starts))
    const first = call()
    await sync.enqueueMany(Array.from({ length: 15 }, (_, i) => i))
    const calls = [first, ...Array.from({ length: 15 }, call)]
    await expect.poll(async () => (await clock.advance(0.1), closed), { interval: 1 }).not.toBe(-1)
    const atClose = closed
    await clock.advance(900)
    expect(starts).toBe(atClose)
    await clock.advance('3s')
    await Promise.all(calls)
    expect(refusals).toBe(1)
    // The refused job starts again.
    expect(starts).toBe(refused === 'a job' ? 32 : 31)
  })
})
