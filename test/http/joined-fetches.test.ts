// Fetches that meet share a claim, those of several workers too, and each gets what it would have got alone.
import { describe, expect, test } from 'vitest'
import { limit, type Limit } from '../../src/exports/index.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import type { ClaimRequest } from '../../src/store/contract/store.ts'
import { createStore } from '../../src/store/open.ts'
import { everyStore } from '../stores.ts'
import { HttpHarness } from './http-harness.ts'

const KINDS = await everyStore('fetches that meet')
const HOUR_US = 3_600_000_000
const retention = { completedUs: HOUR_US, cancelledUs: HOUR_US, discardedUs: HOUR_US }

interface Opened {
  readonly d: HttpHarness
  /** The claims that were made for workers, in order. */
  readonly claims: ClaimRequest[]
  /** Has the next claim for a worker throw, before or after it is written. */
  readonly failNext: (when: 'before' | 'after') => void
}

async function open(kind: (typeof KINDS)[number], limits: readonly Limit[] = []): Promise<Opened> {
  const clock = createManualClock({ start: Date.UTC(2026, 0, 1) })
  const store = await createStore(kind.create(), { clock, durability: 'process', retention })
  const claims: ClaimRequest[] = []
  let fails: 'before' | 'after' | null = null
  const claim = store.claim.bind(store)
  store.claim = async (request) => {
    let asked: ClaimRequest | null = null
    let failing: typeof fails = null
    const answer = await claim(() => {
      asked = request()
      if (asked.remote && fails) [failing, fails] = [fails, null]
      if (failing === 'before') throw new Error('the claim failed')
      return asked
    }).finally(() => {
      if (asked?.remote) claims.push(asked)
    })
    if (failing === 'after') throw new Error('the answer was lost')
    return answer
  }
  const d = await HttpHarness.open({ clock, engine: { store, limits } })
  return { d, claims, failNext: (when) => (fails = when) }
}

async function pushMany(d: HttpHarness, jobs: number): Promise<string[]> {
  const ids: string[] = []
  while (ids.length < jobs) ids.push(await d.push())
  return ids
}

describe.each(KINDS)('on $name, fetches that meet', (kind) => {
  test('get their jobs in order of arrival, each its count, of two claims at most', async () => {
    const { d, claims } = await open(kind)
    await d.fetch()
    claims.length = 0
    const ids = await pushMany(d, 7)
    const got = await Promise.all([1, 3, 2, 2].map((count) => d.fetch({ count })))
    expect(got.map((jobs) => jobs.length)).toEqual([1, 3, 2, 1])
    expect(got.flat()).toEqual(ids)
    expect(claims.length).toBeLessThanOrEqual(2)
  })

  test('of other leases or types share none, and each gets its own jobs', async () => {
    const { d, claims } = await open(kind)
    const ids = await pushMany(d, 3)
    claims.length = 0
    const got = await Promise.all([
      d.fetch({ worker_id: 'a' }),
      d.fetch({ worker_id: 'a', visibility_timeout_ms: 1000 }),
      d.fetch({ worker_id: 'a', types: ['work'] }),
      d.fetch({ worker_id: 'a', types: ['other'] }),
    ])
    expect(got.map((jobs) => jobs.length)).toEqual([1, 1, 1, 0])
    expect(got.flat().toSorted()).toEqual(ids.toSorted())
    expect(claims).toHaveLength(4)
  })

  test('of several workers share a claim: each job is leased to the worker that got it', async () => {
    const { d, claims } = await open(kind)
    for (const worker_id of ['a', 'b', 'c']) await d.fetch({ worker_id })
    const ids = await pushMany(d, 5)
    claims.length = 0
    const got = await Promise.all([
      d.fetch({ worker_id: 'a', count: 2 }),
      d.fetch({ worker_id: 'b' }),
      d.fetch({ worker_id: 'c', count: 9 }),
    ])
    expect(got).toEqual([ids.slice(0, 2), ids.slice(2, 3), ids.slice(3)])
    expect(claims.map(({ takers }) => takers?.map(({ name }) => name))).toEqual([['a', 'b', 'c']])
    const [[first], [second], [third]] = got as [[string], [string], [string]]
    expect((await d.ack(second, { worker_id: 'a' })).status).toBe(409)
    expect((await d.ack(second, { worker_id: 'b' })).status).toBe(200)
    const beat = await d.post('/ojs/v1/workers/heartbeat', { worker_id: 'a', active_jobs: [first, third] })
    expect(beat.body['jobs_extended']).toEqual([first])
  })

  test('of a quiet worker get nothing beside others, and a tenant’s get its own jobs only', async () => {
    const { d } = await open(kind)
    await d.fetch({ worker_id: 'quiet' })
    await d.post('/ojs/v1/admin/workers/quiet/quiet', {})
    const acme = { headers: { 'X-OJS-Tenant': 'acme' } }
    const ids = await pushMany(d, 2)
    const own = await d.push({}, {}, acme)
    const got = await Promise.all([
      d.fetch({ worker_id: 'quiet', count: 9 }),
      d.fetch({ worker_id: 'a', count: 9 }, acme),
      d.fetch({ worker_id: 'a', count: 9 }),
    ])
    expect(got).toEqual([[], [own], ids])
  })

  test('of workers with budgets of their own charge each its own', async () => {
    const { d } = await open(kind, [limit('own', { concurrency: 1, scope: 'worker' })])
    for (const worker_id of ['a', 'b', 'c']) await d.fetch({ worker_id })
    for (let n = 0; n < 4; n++) await d.push({ rate_limit: { x_limit: { name: 'own' } } })
    const both = (): Promise<string[][]> =>
      Promise.all(['a', 'b', 'c'].map((worker_id) => d.fetch({ worker_id, count: 2 })))
    const got = await both()
    expect(got.map((jobs) => jobs.length)).toEqual([1, 1, 1])
    expect(await both()).toEqual([[], [], []])
    expect((await d.ack(got[1]?.[0] as string, { worker_id: 'b' })).status).toBe(200)
    expect((await both()).map((jobs) => jobs.length)).toEqual([0, 1, 0])
  })

  test('and wait are woken together: an arrival goes to the first, those behind it wait on', async () => {
    const { d, claims } = await open(kind)
    const waiting: Promise<string[]>[] = []
    for (const count of [1, 1, 2]) {
      waiting.push(d.fetch({ count, wait: 60_000 }))
      await d.clock.advance('1s')
    }
    claims.length = 0
    const first = await d.push()
    await d.clock.advance('1s')
    expect(await waiting[0]).toEqual([first])
    expect(claims.length).toBeLessThanOrEqual(2)
    const more = await d.post('/ojs/v1/jobs/batch', {
      jobs: [1, 2, 3].map((arg) => ({ type: 'work', args: [arg], options: { queue: 'q' } })),
    })
    expect(more.status).toBeLessThan(300)
    await d.clock.advance('1s')
    expect((await Promise.all(waiting.slice(1))).map((jobs) => jobs.length)).toEqual([1, 2])
  })

  test('of a caller that gave up get nothing, and what was claimed for it goes to others', async () => {
    const { d } = await open(kind)
    const gone = new AbortController()
    const given = d.fetch({ count: 2 }, { signal: gone.signal }).catch(() => [])
    const others = [d.fetch({ count: 1 }), d.fetch({ count: 1 })]
    gone.abort()
    expect(await Promise.all([given, ...others])).toEqual([[], [], []])
    const ids = await pushMany(d, 3)
    const again = new AbortController()
    const quitter = d.fetch({ count: 2 }, { signal: again.signal }).catch(() => [])
    const stayer = d.fetch({ count: 1 })
    again.abort()
    expect(await quitter).toEqual([])
    const rest = [...(await stayer), ...(await d.fetch({ count: 3 }))]
    expect(rest.toSorted()).toEqual(ids.toSorted())
    for (const id of ids) expect((await d.job(id))['attempt']).toBe(1)
  })

  test.each(['before', 'after'] as const)(
    'end well where the claim of one of them fails %s it is written, and no job is lost',
    async (when) => {
      const { d, failNext } = await open(kind)
      await d.fetch()
      const ids = await pushMany(d, 6)
      failNext(when)
      const tries = await Promise.allSettled([1, 1, 1].map((count) => d.fetch({ count })))
      const got = tries.flatMap((each) => (each.status === 'fulfilled' ? each.value : []))
      // One alone may have been refused: the one whose own claim it was.
      expect(tries.filter((each) => each.status === 'rejected').length).toBeLessThanOrEqual(1)
      await d.clock.advance('1s')
      expect([...got, ...(await d.fetch({ count: 9 }))].toSorted()).toEqual(ids.toSorted())
    },
  )
})
