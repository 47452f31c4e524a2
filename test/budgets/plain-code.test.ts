// Plain code and jobs under one budget, on a clock that the test moves.
import { describe, expect, it } from 'vitest'
import { input, limit, RateLimitRejected, Sluice, task } from '../../src/exports/index.ts'
import { createLimiter } from '../../src/exports/limiter.ts'
import { internalsOf } from '../../src/engine/internals.ts'
import { FlowsHarness, STORES } from '../flows/flows-harness.ts'

const crm = limit('crm', { rate: 10, per: '1s', burst: 1 })
const slots = limit('slots', { concurrency: 2 })

/** An engine with a job for each limit, and what starts by whom: seconds since it was made. */
async function opened(kind: (typeof STORES)[number], options: Parameters<FlowsHarness['start']>[0] = {}) {
  const harness = new FlowsHarness(kind)
  const starts: { readonly who: string; readonly at: number }[] = []
  const note = (who: string): void => void starts.push({ who, at: harness.at })
  const sync = task('sync', input<string>(), { limits: [crm.key('acme')], run: (who) => note(who) })
  const hold = task('hold', input<string>(), {
    limits: [slots],
    run: async (ms) => harness.clock.sleep(Number(ms)),
  })
  const engine = await harness.start({ tasks: [sync, hold], ...options })
  const take = async (who: string, more = {}): Promise<void> => {
    const permit = await engine.limits.acquire([crm.key('acme')], more)
    note(who)
    await permit.release()
  }
  const at = (who: string): number[] => starts.filter((each) => each.who === who).map((each) => each.at)
  return { clock: harness.clock, harness, engine, sync, hold, take, starts, at }
}

describe.each(STORES)('plain code under budgets of jobs on $name', (kind) => {
  it('starts with jobs in turn, and all together never beyond the budget', async () => {
    const { clock, sync, take, starts, at } = await opened(kind)
    await sync.enqueue('first')
    await clock.advance(0)
    await Promise.all(Array.from({ length: 10 }, () => sync.enqueue('job')))
    await clock.advance(0)
    const taken = Array.from({ length: 10 }, () => take('code'))
    await clock.advance('3s')
    expect(starts.length).toBe(21)
    await Promise.all(taken)
    expect(starts.map((each) => each.at)).toEqual(starts.map((_, i) => Math.round(i * 100) / 1000))
    // Neither waits for the other's end.
    expect(Math.max(...at('job').slice(0, 5))).toBeLessThan(1.2)
    expect(Math.max(...at('code').slice(0, 5))).toBeLessThan(1.2)
  })

  it('cannot overtake a heavy job that waits, and a more urgent call goes first', async () => {
    const heavy = limit('heavy', { rate: 10, per: '1s' })
    const harness = new FlowsHarness(kind)
    const starts: string[] = []
    const big = task('big', { limits: [heavy.weight(10)], run: () => void starts.push(`big ${harness.at}`) })
    const engine = await harness.start({ tasks: [big] })
    const take = async (who: string, priority = 0): Promise<void> => {
      await engine.limits.acquire([heavy], { priority })
      starts.push(`${who} ${harness.at}`)
    }
    await Promise.all(Array.from({ length: 6 }, () => take('x')))
    await big.enqueue()
    await harness.clock.advance('100ms')
    const late = take('late')
    const urgent = take('urgent', 5)
    await harness.clock.advance('2s')
    await Promise.all([late, urgent])
    expect(starts.slice(6).map((each) => each.split(' ')[0])).toEqual(['urgent', 'big', 'late'])
  })

  it('goes on while a job before it waits for a slot, also in the handler that keeps that slot', async () => {
    const harness = new FlowsHarness(kind)
    const starts: string[] = []
    const note = (who: string): void => void starts.push(`${who} ${harness.at}`)
    const sync = task('sync', { limits: [crm.key('acme')], run: () => note('sync') })
    const outer = task('outer', {
      run: async () => {
        await engine.limits.acquire([crm.key('acme')])
        note('outer')
      },
    })
    const engine = await harness.start({ tasks: [sync, outer], queues: { default: 1 } })
    for (const each of [sync, sync, outer]) {
      await each.enqueue()
      await harness.clock.advance(0)
    }
    await harness.clock.advance('1s')
    // The job has been first for 50 ms.
    expect(starts).toEqual(['sync 0', 'outer 0.15', 'sync 0.25'])
  })

  it('waits no longer than it was told, and tells at once where that is known', async () => {
    const { clock, engine, harness } = await opened(kind)
    const use = [crm.key('acme')]
    await engine.limits.acquire(use)
    const refused = await engine.limits.acquire(use, { wait: false }).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(RateLimitRejected)
    expect(refused).toMatchObject({ limit: 'crm', key: 'acme', expectedStart: new Date(clock.now() + 100) })
    await expect(engine.limits.acquire(use, { wait: '50ms' })).rejects.toMatchObject({ code: 'limit.rejected' })
    const late = [1, 2, 3].map(() =>
      engine.limits.acquire(use, { wait: '250ms' }).then(
        () => harness.at,
        () => -1,
      ),
    )
    await clock.advance('1s')
    expect(await Promise.all(late)).toEqual([0.1, 0.2, -1])
  })

  it('leaves its place when its signal aborts', async () => {
    const { clock, engine, take, at } = await opened(kind)
    await take('first')
    const abort = new AbortController()
    const gone = engine.limits.acquire([crm.key('acme')], { signal: abort.signal })
    await clock.advance(10)
    const next = take('next')
    await clock.advance(10)
    expect((await engine.limits.inspect('crm', 'acme'))[0]?.waiting).toBe(2)
    abort.abort(new Error('enough'))
    await expect(gone).rejects.toThrow('enough')
    await clock.advance('1s')
    await next
    expect(at('next')).toEqual([0.1])
    expect((await engine.limits.inspect('crm', 'acme'))[0]?.waiting).toBe(0)
  })

  it('holds permits of the same concurrency as jobs, and both wake each other', async () => {
    const { clock, engine, hold, harness } = await opened(kind)
    const first = await engine.limits.acquire([slots])
    await hold.enqueue('1000')
    await clock.advance(0)
    expect((await engine.limits.inspect('slots'))[0]?.active).toBe(2)
    const second = engine.limits.acquire([slots]).then((permit) => ({ permit, at: harness.at }))
    await clock.advance('1500ms')
    expect((await second).at).toBe(1)
    const job = await hold.enqueue('0')
    await clock.advance('1s')
    expect((await engine.jobs.get(job.id))?.state).toBe('available')
    await first.release()
    await clock.advance(1)
    expect((await engine.jobs.get(job.id))?.state).toBe('completed')
    await (await second).permit.release()
    expect((await engine.limits.inspect('slots'))[0]?.active).toBe(0)
  })

  it.each([
    ['a call', 3],
    ['a job', 6],
  ] as const)('%s gets the permit of a process that is gone when its lease is over', async (who, leaseS) => {
    const { clock, harness, engine, hold } = await opened(kind)
    const { store } = await internalsOf(engine).open()
    const uses = [{ limit: 'slots', key: '', weight: 2 }]
    await clock.advance('6s')
    for (const [i, permit] of ['one', 'two'].entries()) {
      const request = { uses, priority: 0, line: 0, permit, leaseUs: (leaseS + i) * 1_000_000 }
      expect(await store.budgets.acquire([request])).toMatchObject([{ kind: 'granted' }])
    }
    if (who === 'a call') {
      const at = engine.limits.acquire([slots]).then(() => harness.at)
      await clock.advance('7s')
      expect(await at).toBe(9)
    } else {
      const job = await hold.enqueue('0')
      await clock.advance('7s')
      expect((await engine.jobs.get(job.id))?.startedAt).toEqual(new Date(clock.now() - 1000))
    }
  })

  it('shows no ticket among jobs, and leaves no row behind', async () => {
    const { clock, engine, take } = await opened(kind)
    const taken = Array.from({ length: 3 }, () => take('code'))
    await clock.advance(50)
    expect(await engine.jobs.list()).toEqual([])
    await clock.advance('1s')
    await Promise.all(taken)
    expect(await engine.jobs.list()).toEqual([])
  })

  it('waits while its limit is paused, and obeys an override and a penalty at once', async () => {
    const { clock, engine, take, at } = await opened(kind)
    await engine.limits.pause('crm', 'acme')
    const paused = take('paused')
    await clock.advance('5s')
    expect(at('paused')).toEqual([])
    await engine.limits.resume('crm', 'acme')
    await clock.advance(0)
    await paused
    expect(at('paused')).toEqual([5])
    await engine.limits.penalize('crm', 'acme', '3s')
    const closed = take('closed')
    await clock.advance('4s')
    await closed
    expect(at('closed')).toEqual([8])
  })

  it('waits for a start after the end of an override, and is refused at once if that is too late', async () => {
    const { clock, engine, take, at } = await opened(kind)
    const until = new Date(clock.now() + 60_000)
    await engine.limits.override('crm', 'acme', { rate: 1, per: '1h' }, { until })
    await take('first')
    await expect(take('late', { wait: '60s' })).rejects.toMatchObject({ expectedStart: new Date(clock.now() + 60_098) })
    const second = take('second', { wait: '61s' })
    await clock.advance('1s')
    const third = take('third', { wait: '60s' })
    await clock.advance('60s')
    await Promise.all([second, third])
    expect([...at('second'), ...at('third')]).toEqual([60.098334, 60.198334])
  })

  it('waits after a long rest as before it', async () => {
    const { clock, harness, engine, take, at } = await opened(kind)
    await take('first')
    const second = take('second')
    await clock.advance('1s')
    await second
    await clock.advance('10m')
    const { store } = await internalsOf(engine).open()
    while ((await store.prune(1000)) > 0);
    await store.budgets.tidy()
    await take('third')
    const fourth = take('fourth')
    await clock.advance(10)
    // Another process knows the queue of this one.
    const other = harness.create({ limits: [crm] })
    expect((await other.limits.waiting()).rows).toMatchObject([{ queue: 'plain code', limit: 'crm', waiting: 1 }])
    await clock.advance('1s')
    await fourth
    expect([...at('second'), ...at('third'), ...at('fourth')]).toEqual([0.1, 601, 601.1])
    expect((await engine.limits.inspect('crm', 'acme'))[0]?.waiting).toBe(0)
  })

  it('run acquires, releases, and closes the budget by a refusal', async () => {
    const { clock, engine } = await opened(kind)
    expect(await engine.limits.run([slots], () => 42)).toBe(42)
    expect((await engine.limits.inspect('slots'))[0]?.active).toBe(0)
    const { RateLimited } = await import('../../src/exports/index.ts')
    const run = engine.limits.run([crm.key('acme')], () => {
      throw new RateLimited({ retryAfter: '2s' })
    })
    await expect(run).rejects.toMatchObject({ name: 'RateLimited' })
    await expect(engine.limits.acquire([crm.key('acme')], { wait: false })).rejects.toMatchObject({
      expectedStart: new Date(clock.now() + 2000),
    })
  })

  it('is refused what it can never get, before anything is written', async () => {
    const { engine } = await opened(kind)
    const acquire = (uses: unknown, options?: unknown): Promise<unknown> =>
      (engine.limits.acquire as (uses: unknown, options?: unknown) => Promise<unknown>).call(
        engine.limits,
        uses,
        options,
      )
    const code = (promise: Promise<unknown>): Promise<string> =>
      promise.then(
        () => 'granted',
        (error: { code?: string }) => error.code ?? 'no code',
      )
    expect(await code(acquire([crm.key('acme', { weight: 2 })]))).toBe('limit.weight.above_burst')
    expect(await code(acquire([]))).toBe('option.invalid')
    expect(await code(acquire('crm'))).toBe('option.invalid')
    expect(await code(acquire([crm.key('acme')], { wiat: '5s' }))).toBe('option.invalid')
    expect(await code(acquire([crm.key('acme')], { priority: 101 }))).toBe('priority.invalid')
    expect(await code(acquire([crm.key('acme')], { wait: 'soon' }))).toBe('duration.invalid')
    expect(await code(acquire([limit('crm', { rate: 5, per: '1s' }).key('acme')]))).toBe('limit.conflict')
    const aborted = AbortSignal.abort(new Error('before'))
    await expect(acquire([crm.key('acme')], { signal: aborted })).rejects.toThrow('before')
    expect((await engine.limits.inspect('crm')).length).toBe(0)
    // Any text is a key, as it is for jobs.
    for (const key of ['k'.repeat(5000), 'a\0b', '\ud800'])
      expect([await code(acquire([crm.key(key)])), await code(acquire([crm.key(key)], { wait: false }))]).toEqual([
        'granted',
        'limit.rejected',
      ])
  })

  it('ends with its engine', async () => {
    const { harness, clock, engine, take } = await opened(kind)
    await take('first')
    const waits = engine.limits.acquire([crm.key('acme')]).catch((error: { code?: string }) => error.code)
    await clock.advance(10)
    await harness.stop(engine)
    expect(await waits).toBe('limiter.closed')
    await expect(engine.limits.acquire([crm.key('acme')])).rejects.toMatchObject({
      code: /engine.stopped|limiter.closed/,
    })
  })
})

describe('a limiter on a store that cannot be reached', () => {
  const crmElsewhere = limit('crm', { rate: 10, per: '1s' })
  const backend = 'postgres://root@127.0.0.1:1/none'

  it('denies calls, tells it once, and goes on without a budget where it may', async () => {
    const events: string[] = []
    const closed = createLimiter({ backend, limits: [crmElsewhere] })
    closed.on('rate_limit.backend_down', () => events.push('down'))
    for (const wait of [false, '50ms'] as const)
      await expect(closed.acquire([crmElsewhere], { wait })).rejects.toMatchObject({ code: 'limit.rejected' })
    await expect(closed.inspect(crmElsewhere)).rejects.toMatchObject({ code: 'limiter.backend_down' })
    expect(events).toEqual(['down'])
    await closed.close()
    const open = createLimiter({ backend, limits: [crmElsewhere], failMode: 'open' })
    await (await open.acquire([crmElsewhere])).release()
    await open.close()
  })

  it('refuses an address that is no store', () => {
    for (const address of ['sqlite:', 'postgres://', 'mysql://host/x'])
      expect(() => createLimiter({ backend: address, limits: [] })).toThrow(
        expect.objectContaining({ code: 'limiter.url.invalid' }),
      )
  })
})

describe.each(STORES)('a limiter by the address of a store on $name', (kind) => {
  it('shares definitions, pauses and budgets with the jobs of an engine, under its namespace', async () => {
    const url = kind.create()
    const own = limit('acme/crm', { rate: 2, per: '1h' })
    const job = task('job', { limits: [own], run: () => 'ran' })
    const sluice = new Sluice({ store: url, tasks: [job] })
    await sluice.start()
    const shared = limit('crm', { rate: 2, per: '1h' })
    const limiter = createLimiter({ backend: url, namespace: 'acme', limits: [shared] })
    await (await job.enqueue()).result()
    await limiter.acquire([shared], { wait: false })
    const refused = await limiter.acquire([shared], { wait: false }).catch((error: unknown) => error)
    expect(refused).toMatchObject({ code: 'limit.rejected', limit: 'crm' })
    expect((await sluice.limits.inspect('acme/crm'))[0]?.available).toBe(0)
    const waits = await job.enqueue()
    await limiter.override(shared, { rate: 1000, burst: 1000 })
    await limiter.forget(shared)
    expect(await waits.result()).toBe('ran')
    await limiter.pause(shared)
    await expect(limiter.acquire([shared], { wait: '10ms' })).rejects.toMatchObject({ expectedStart: null })
    expect((await sluice.limits.inspect('acme/crm'))[0]?.overrides.map((each) => each.kind)).toContain('pause')
    await limiter.close()
    await sluice.stop()
  })

  it('refuses limits of scope worker alone, and those that drop at once', async () => {
    const limits = [
      limit('each', { rate: 1, per: '1s', scope: 'worker' }),
      limit('drops', { rate: 2, per: '1h', onLimit: 'drop' }),
    ] as const
    const limiter = createLimiter({ backend: kind.create(), limits })
    const [wrong, right] = await Promise.allSettled([limiter.acquire([limits[0]]), limiter.acquire([limits[1]])])
    expect(wrong).toMatchObject({ status: 'rejected', reason: { code: 'option.invalid' } })
    expect(right.status).toBe('fulfilled')
    await limiter.acquire([limits[1]])
    await expect(limiter.acquire([limits[1]])).rejects.toMatchObject({ code: 'limit.rejected' })
    await limiter.close()
  })
})
