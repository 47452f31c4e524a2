import { describe, expect, test } from 'vitest'
import type { StoreBackend } from './backend.ts'
import { eachHarness, type StoreHarness } from './store-harness.ts'

/** Claims until the store has nothing more to reject or to put off; answers the names of the rejected, and how many claims it took. */
async function settled(
  w: StoreHarness,
  slots = 100,
): Promise<{ rejected: string[]; started: string[]; claims: number }> {
  const rejected: string[] = []
  const started: string[] = []
  for (let claims = 1; ; claims++) {
    const claim = await w.claim({ slots })
    rejected.push(...claim.rejected.map((job) => job.task))
    started.push(...claim.jobs.map((job) => job.task))
    expect(claim.rejected.length).toBeLessThanOrEqual(2000)
    if (claim.nextWakeUs === null || claim.nextWakeUs > claim.nowUs) return { rejected, started, claims }
  }
}

const names = (name: string, from: number, to: number): string[] =>
  Array.from({ length: to - from + 1 }, (_, i) => `${name}${from + i}`)

/** The fate of jobs whose budget is used up, at any depth. */
export function closedBudgets(backend: StoreBackend): void {
  describe('a longest wait', () => maxWait(backend))
  describe('putting off', () => reschedule(backend))
  describe('several behaviours', () => precedence(backend))
}

function maxWait(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('of a deep lane exactly the jobs that cannot start in time are rejected, in batches', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '1s', burst: 1, maxWait: '30s' } })
    await w.add('a', { limits: ['r:k'] }, 5000)
    const { rejected, started, claims } = await settled(w)
    expect(started).toEqual(['a1'])
    expect(rejected).toEqual(names('a', 302, 5000))
    expect(claims).toBeGreaterThan(3)
    expect(await w.bucket('r', 'k')).toMatchObject({ available: 0, waiting: 300, debt: 0 })
    for (let n = 2; n <= 301; n++) {
      w.at((n - 1) * 100)
      expect(await w.start()).toEqual([`a${n}`])
    }
    expect(await w.wake()).toBeNull()
  })

  test('who arrives behind those that can start in time is judged by their number', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, maxWait: '3s' } })
    await w.add('a', { limits: ['r'] }, 4)
    expect((await settled(w)).rejected).toEqual([])
    await w.add('late', { limits: ['r'] })
    expect((await settled(w)).rejected).toEqual(['late'])
    w.at(1000)
    expect(await w.start()).toEqual(['a2'])
    await w.add('b', { limits: ['r'] }, 2)
    expect((await settled(w)).rejected).toEqual(['b2'])
  })

  test('weights count as units', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '1s', burst: 10, maxWait: '2s' } })
    await w.add('first', { limits: ['r*10'] })
    await w.add('five', { limits: ['r*5'] }, 3)
    await w.add('six', { limits: ['r*6'] })
    await w.add('one', { limits: ['r'] }, 6)
    expect(await settled(w)).toMatchObject({ started: ['first'], rejected: ['six', 'one6'] })
  })

  test('one that is cancelled makes room for who arrives later', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, maxWait: '3s' } })
    await w.add('a', { limits: ['r'] }, 4)
    await settled(w)
    await w.cancel('a3')
    await w.add('b', { limits: ['r'] }, 2)
    expect((await settled(w)).rejected).toEqual(['b2'])
  })

  test('a more urgent arrival is not too late, but who it pushes back is', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, maxWait: '3s' } })
    await w.add('a', { limits: ['r'] }, 4)
    await settled(w)
    await w.add('urgent', { limits: ['r'], priority: 1 })
    expect((await settled(w)).rejected).toEqual(['a4'])
    await w.add('second', { limits: ['r'], priority: 1 })
    expect((await settled(w)).rejected).toEqual(['a3'])
    w.at(1000)
    expect(await w.start()).toEqual(['urgent'])
  })

  test('a limit that becomes slower, or is closed for a while, makes more of them late at once', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, maxWait: '10s' } })
    await w.add('a', { limits: ['r:k'] }, 11)
    expect((await settled(w)).rejected).toEqual([])
    await w.override('r:k', { per: '2s' })
    expect((await settled(w)).rejected).toEqual(names('a', 7, 11))
    await w.store.penalize('r', 'k', w.us(7000))
    expect((await settled(w)).rejected).toEqual(['a4', 'a5', 'a6'])
  })

  test('a bound that is lifted while a job waits does not end it', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '10s', burst: 1, maxWait: '15s' } })
    await w.add('a', { limits: ['r:k'] }, 2)
    await settled(w)
    await w.store.penalize('r', 'k', w.us(14_000))
    await w.override('r:k', { maxWait: null })
    await w.store.penalize('r', 'k', w.us(30_000))
    w.at(20_000)
    expect(await settled(w)).toMatchObject({ rejected: [], started: [] })
    w.at(30_000)
    expect(await w.start()).toEqual(['a2'])
  })

  test('the slower of two budgets decides, and is named with the expected start', async () => {
    const w = harness()
    await w.define({ fast: { rate: 1, per: '1s', burst: 1, maxWait: '5s' }, slow: { rate: 2, per: '20s', burst: 2 } })
    await w.add('a', { limits: ['fast', 'slow'] }, 4)
    const { jobs, rejected } = await w.claim()
    expect(jobs.map((job) => job.task)).toEqual(['a1'])
    expect(rejected.map(({ task, limit, expectedStartUs }) => [task, limit, w.ms(expectedStartUs)])).toEqual([
      ['a3', 'slow', 10_000],
      ['a4', 'slow', 10_000],
    ])
  })

  test('a job that no slot was free for in time is late, not expired', async () => {
    const w = harness()
    await w.define({ r: { rate: 1000, per: '1s', maxWait: '1s' } })
    await w.add('a', { limits: ['r:k'] }, 2)
    expect(await w.start(1)).toEqual(['a1'])
    w.at(1001)
    expect((await w.claim({ slots: 0 })).rejected).toMatchObject([{ task: 'a2', reason: 'late', limit: 'r', key: 'k' }])
  })

  test('a job that has expired says which budget it waited for, as one that is late does', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1m' } })
    await w.add('a', { limits: ['r:k'], expiresAtMs: w.clock.now() + 5000 }, 2)
    await w.start()
    w.at(6000)
    expect((await w.claim()).rejected).toMatchObject([
      { task: 'a2', reason: 'expired', limit: 'r', key: 'k', expectedStartUs: w.us(60_000) },
    ])
    expect((await w.get('a2'))?.error).toMatchObject({
      code: 'job.expired',
      message: 'The job expired before it could start; it waited for the budget of limit r for k.',
      details: { limit: 'r', key: 'k' },
    })
  })

  test('a job that has expired in its lane has expired, for all that it waited for', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1h', burst: 1 } })
    await w.add('a', { limits: ['r'], expiresAtMs: w.clock.now() + 1000 }, 2)
    expect(await w.start()).toEqual(['a1'])
    w.at(1001)
    expect((await w.claim()).rejected).toMatchObject([{ task: 'a2', reason: 'expired' }])
  })
}

function reschedule(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  /** When each job is shown to start, in ms, and how. */
  async function shown(w: StoreHarness, ...jobs: string[]): Promise<(string | number | null)[]> {
    return Promise.all(
      jobs.map(async (name) => {
        const job = await w.get(name)
        return job.state === 'scheduled' ? w.ms(job.dueUs) : job.state
      }),
    )
  }

  test('each job of a deep lane is put off once, to its own expected start, and starts then', async () => {
    const w = harness()
    await w.define({ r: { rate: 10, per: '1s', burst: 1, onLimit: 'reschedule' } })
    await w.add('a', { limits: ['r'] }, 3000)
    const { claims, rejected } = await settled(w)
    expect(rejected).toEqual([])
    expect(claims).toBe(3)
    expect(await shown(w, 'a2', 'a3', 'a1500', 'a3000')).toEqual([100, 200, 149_900, 299_900])
    expect(await w.store.list({ states: ['available'] })).toEqual([])
    expect(await w.store.list({ states: ['scheduled'], limit: 1000 })).toHaveLength(1000)
    for (let n = 2; n <= 20; n++) {
      w.at((n - 1) * 100 - 0.001)
      expect(await w.wake()).toBe((n - 1) * 100)
      w.at((n - 1) * 100)
      expect(await w.start()).toEqual([`a${n}`])
    }
    expect(await shown(w, 'a21', 'a3000')).toEqual([2000, 299_900])
  })

  test('who comes later is put off behind those that were, and one that is more urgent goes first', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, onLimit: 'reschedule' } })
    await w.add('a', { limits: ['r'] }, 3)
    await settled(w)
    await w.add('b', { limits: ['r'] })
    await settled(w)
    expect(await shown(w, 'a2', 'a3', 'b')).toEqual([1000, 2000, 3000])
    await w.add('urgent', { limits: ['r'], priority: 1 })
    await settled(w)
    expect(await shown(w, 'urgent', 'a2', 'a3', 'b')).toEqual([1000, 2000, 3000, 4000])
    w.at(1000)
    expect(await w.start()).toEqual(['urgent'])
    w.at(2000)
    expect(await w.start()).toEqual(['a2'])
  })

  test('a budget that grows is used at once, and one that shrinks is not exceeded: all are rescheduled again', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '10s', burst: 1, onLimit: 'reschedule' } })
    await w.add('a', { limits: ['r:k'] }, 5)
    await settled(w)
    expect(await shown(w, 'a2', 'a5')).toEqual([10_000, 40_000])
    w.at(1000)
    await w.override('r:k', { per: '2s' })
    await settled(w)
    const [second] = await shown(w, 'a2')
    expect(second).toBeLessThan(3000)
    w.at(second as number)
    expect(await w.start()).toEqual(['a2'])
    await w.override('r:k', { per: '1m' })
    await settled(w)
    const [third, fourth] = (await shown(w, 'a3', 'a4')) as [number, number]
    expect(fourth - third).toBe(60_000)
    w.at(third - 0.001)
    expect(await w.start()).toEqual([])
    w.at(third)
    expect(await w.start()).toEqual(['a3'])
  })

  test('the place of one that is cancelled is taken by the next', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, onLimit: 'reschedule' } })
    await w.add('a', { limits: ['r'] }, 4)
    await settled(w)
    expect(await w.cancel('a2')).toBe('cancelled')
    w.at(1000)
    expect(await w.start()).toEqual(['a3'])
  })

  test('a pause outlasts what was told: the job is available then, and starts when the limit goes on', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, onLimit: 'reschedule' } })
    await w.add('a', { limits: ['r'] }, 3)
    await settled(w)
    await w.pause('r')
    w.at(5000)
    expect(await w.start()).toEqual([])
    expect(await w.states('a2', 'a3')).toEqual(['available', 'available'])
    await w.resume('r')
    expect(await w.start()).toEqual(['a2'])
    expect(await shown(w, 'a3')).toEqual([6000])
  })

  test('it says of itself where it stands and what holds it', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, onLimit: 'reschedule' } })
    await w.add('a', { limits: ['r:k'] }, 3)
    await settled(w)
    expect(await w.explain('a3')).toMatchObject({
      job: { state: 'scheduled' },
      waitsOn: { limit: 'r', key: 'k' },
      position: 2,
      expectedStartUs: w.us(2000),
    })
  })

  test('a unique key is held by one that was put off as by any that is scheduled', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, onLimit: 'reschedule' } })
    await w.add('a', { limits: ['r'] })
    await w.add('b', { limits: ['r'], unique: { key: 'u' } })
    await settled(w)
    expect(await w.offer('c', { unique: { key: 'u', states: ['scheduled'] } })).toMatchObject({ kind: 'duplicate' })
    expect(await w.offer('d', { unique: { key: 'u', states: ['available'] } })).toMatchObject({ kind: 'created' })
  })

  test('a retry is put off like any other', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, onLimit: 'reschedule' } })
    await w.add('a', { limits: ['r'] }, 2)
    await settled(w)
    await w.retry('a1')
    await settled(w)
    expect(await shown(w, 'a1', 'a2')).toEqual([1000, 2000])
  })
}

function precedence(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a limit that drops goes before one that reschedules', async () => {
    const w = harness()
    await w.define({
      d: { rate: 1, per: '1s', burst: 1, onLimit: 'drop' },
      r: { rate: 1, per: '1h', burst: 1, onLimit: 'reschedule' },
    })
    await w.add('a', { limits: ['d', 'r'] }, 3000)
    const { rejected, started } = await settled(w)
    expect(started).toEqual(['a1'])
    expect(rejected).toEqual(names('a', 2, 3000))
  })

  test('one that comes too late is rejected, and the others are put off', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s', burst: 1, onLimit: 'reschedule', maxWait: '2s' } })
    await w.add('a', { limits: ['r'] }, 5)
    expect((await settled(w)).rejected).toEqual(['a4', 'a5'])
    expect(await w.states('a2', 'a3')).toEqual(['scheduled', 'scheduled'])
  })

  test('a limit that reschedules and does not refuse leaves the wait to the one that does', async () => {
    const w = harness()
    await w.define({
      w: { rate: 1, per: '1s', burst: 1 },
      r: { rate: 100, per: '1s', onLimit: 'reschedule' },
    })
    await w.add('a', { limits: ['w', 'r'] }, 2)
    await settled(w)
    expect(await w.states('a2')).toEqual(['available'])
  })
}
