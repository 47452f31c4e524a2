// Rows of the acceptance cases on keyed limits, over HTTP: limits of the server by `x_limit`, workers that wait for work.
import { describe, expect, test } from 'vitest'
import { limit, type Policy } from '../../src/exports/index.ts'
import { everyStore, onSqlite, type StoreKind } from '../stores.ts'
import { HttpHarness } from './http-harness.ts'

const KINDS = await everyStore('keyed limits over HTTP')

function harness(policy: Policy, kind: StoreKind = onSqlite): Promise<HttpHarness> {
  return HttpHarness.open({ engine: { limits: [limit('gate', policy)], store: kind.create() } })
}

/** Two servers over one store, whose workers see each other's budgets by it alone. */
async function twoHarnesses(policy: Policy, kind: StoreKind): Promise<[HttpHarness, HttpHarness]> {
  const engine = { limits: [limit('gate', policy)], store: kind.create() }
  const first = await HttpHarness.open({ engine })
  return [first, await HttpHarness.open({ engine, clock: first.clock })]
}

async function arrive(at: HttpHarness, key: string, count = 1, name = key, options: object = {}): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < count; i++)
    ids.push(await at.push({ rate_limit: { x_limit: { name: 'gate', key } }, ...options }, { args: [name] }))
  return ids
}

const times = (starts: readonly { at: number }[]): number[] => starts.map(({ at }) => Math.round(at * 1000) / 1000)

describe.each(KINDS)('on $name', (kind) => {
  test('1a: a burst of 15, then one every 4 s', async () => {
    const d = await harness({ rate: 15, per: '60s' }, kind)
    const starts = d.work(['q'])
    await arrive(d, 'A', 20)
    await d.clock.advance('30s')
    expect(times(starts)).toEqual([...Array<number>(15).fill(0), 4, 8, 12, 16, 20])
  })

  test('1b: a strict window of 60 s never holds more than 15', async () => {
    const d = await harness({ window: 'sliding', max: 15, per: '60s', guard: 0 }, kind)
    const starts = d.work(['q'], { workers: 4, count: 3 })
    await arrive(d, 'A', 32)
    await d.clock.advance('130s')
    expect(times(starts)).toEqual([...Array<number>(15).fill(0), ...Array<number>(15).fill(60), 120, 120])
  })

  test('7: a key that has run out never delays another', async () => {
    const d = await harness({ rate: 1, per: '60s' }, kind)
    const starts = d.work(['q'])
    await arrive(d, 'A', 2)
    await arrive(d, 'B')
    await d.clock.advance('70s')
    expect(starts.map(({ arg, at }) => [arg, at])).toEqual([
      ['A', 0],
      ['B', 0],
      ['A', 60],
    ])
  })

  test('34: behind a hundred jobs of a key without budget, another key and a job without a limit start at once', async () => {
    const d = await harness({ rate: 1, per: '60s' }, kind)
    const starts = d.work(['q'], { workers: 2, count: 1 })
    await arrive(d, 'A', 100)
    await d.clock.advance('100ms')
    await arrive(d, 'B')
    await d.push({}, { args: ['free'] })
    await d.clock.advance('10ms')
    expect(starts.map(({ arg }) => arg).sort()).toEqual(['A', 'B', 'free'])
    expect(starts.every(({ at }) => at <= 0.11)).toBe(true)
  })
})

describe.each(KINDS)('two servers on $name', (kind) => {
  test('1a: share a burst of 15, then one every 4 s', async () => {
    const harnesses = await twoHarnesses({ rate: 15, per: '60s' }, kind)
    await arrive(harnesses[0], 'A', 10)
    await arrive(harnesses[1], 'A', 10)
    await oneEach(harnesses)
    const starts = harnesses.map((d) => d.work(['q'], { workers: 2, count: 2 }))
    await harnesses[0].clock.advance('30s')
    expect(sorted(starts)).toEqual([...Array<number>(15 - 2).fill(0), 4, 8, 12, 16, 20])
  })

  test('1b: a strict window of 60 s never holds more than 15 of both', async () => {
    const harnesses = await twoHarnesses({ window: 'sliding', max: 15, per: '60s', guard: 0 }, kind)
    await arrive(harnesses[0], 'A', 32)
    await oneEach(harnesses)
    const starts = harnesses.map((d) => d.work(['q'], { workers: 4, count: 3 }))
    await harnesses[0].clock.advance('130s')
    expect(sorted(starts)).toEqual([...Array<number>(15 - 2).fill(0), ...Array<number>(15).fill(60), 120, 120])
  })

  test('a permit that one hands out is not there for the other until it is back', async () => {
    const [first, second] = await twoHarnesses({ concurrency: 2 }, kind)
    await arrive(first, 'A', 3)
    const [held = ''] = await first.fetch({ worker_id: 'a', count: 1 })
    expect(await second.fetch({ worker_id: 'b', count: 3 })).toHaveLength(1)
    expect(await second.fetch({ worker_id: 'b', count: 3 })).toEqual([])
    // Any of the servers may report its end.
    expect((await second.ack(held)).status).toBe(200)
    expect(await second.fetch({ worker_id: 'b', count: 3 })).toHaveLength(1)
  })
})

/** Each server hands out one job of the budget that they share: which of them is the quicker from then on does not matter. */
async function oneEach(harnesses: readonly HttpHarness[]): Promise<void> {
  for (const harness of harnesses) {
    const [id = ''] = await harness.fetch({ worker_id: 'by-hand', count: 1 })
    expect((await harness.ack(id)).status).toBe(200)
  }
}

const sorted = (starts: readonly (readonly { at: number }[])[]): number[] => times(starts.flat()).sort((a, b) => a - b)

test('16b: what is cancelled while it waits is gone, and those behind move up', async () => {
  const d = await harness({ rate: 1, per: '10s' })
  const starts = d.work(['q'])
  const ids = await arrive(d, 'A', 4)
  await d.clock.advance('1s')
  for (const id of ids.slice(1, 3)) expect((await d.send('DELETE', `/ojs/v1/jobs/${id}`)).status).toBe(200)
  await d.clock.advance('1s')
  await arrive(d, 'A', 1, 'e')
  await d.clock.advance('30s')
  expect(times(starts)).toEqual([0, 10, 20])
  expect(starts.map(({ id }) => id).slice(0, 2)).toEqual([ids[0], ids[3]])
})

test('29b: an urgent arrival goes first, and books nothing at arrival', async () => {
  const d = await harness({ rate: 1, per: '10s' })
  const starts = d.work(['q'])
  for (const name of ['t1', 't2', 't3', 't4']) await arrive(d, 'A', 1, name)
  await d.clock.advance('1s')
  await arrive(d, 'A', 1, 'H', { priority: 50 })
  await d.clock.advance('60s')
  expect(starts.map(({ arg, at }) => [arg, at])).toEqual([
    ['t1', 0],
    ['H', 10],
    ['t2', 20],
    ['t3', 30],
    ['t4', 40],
  ])
})

test('33: one budget for two queues, and the queue that is named first goes first', async () => {
  const d = await harness({ rate: 2, per: '700ms' })
  const starts = d.work(['p', 'q'])
  for (let i = 0; i < 4; i++) {
    await arrive(d, 'A', 1, 'p', { queue: 'p' })
    await arrive(d, 'A', 1, 'q')
  }
  await d.clock.advance('3s')
  expect(times(starts)).toEqual([0, 0, 0.35, 0.7, 1.05, 1.4, 1.75, 2.1])
})

test('36a: a step of the wall clock moves no start', async () => {
  const d = await harness({ rate: 15, per: '60s', burst: 1 })
  const starts = d.work(['q'])
  await arrive(d, 'A', 4)
  await d.clock.advance('1s')
  d.clock.step('60s')
  await d.clock.advance('20s')
  expect(times(starts).map((at) => (at > 60 ? at - 60 : at))).toEqual([0, 4, 8, 12])
})

test('38b: a changed limit carries its level over', async () => {
  const d = await harness({ rate: 1, per: '2s' })
  const starts = d.work(['q'])
  await arrive(d, 'A', 5)
  await d.clock.advance('5s')
  await d.sluice.limits.override('gate', undefined, { per: '10s' })
  await d.clock.advance('30s')
  expect(times(starts)).toEqual([0, 2, 4, 10, 20])
})

test('25 and 28: each attempt pays, and its number goes on', async () => {
  const d = await harness({ rate: 1, per: '700ms' })
  const retry = { max_attempts: 3, initial_interval: 'PT0.03S', jitter: false, backoff_strategy: 'constant' }
  const [id = ''] = await arrive(d, 'A', 1, 'f', { retry })
  const seen: [number, number][] = []
  for (let i = 0; i < 3; i++) {
    const { body } = await sendFetch(d)
    seen.push([body['jobs'][0].attempt as number, d.at])
    await d.nack(id)
    await d.clock.advance('700ms')
  }
  expect(seen).toEqual([
    [1, 0],
    [2, 0.7],
    [3, 1.4],
  ])
  expect(await d.job(id)).toMatchObject({ state: 'discarded', attempt: 3 })
})

test('40: what waits is available, counted with its key, and the limit tells who waits', async () => {
  const d = await harness({ rate: 1, per: '10s' })
  await arrive(d, 'A', 3)
  await arrive(d, 'B', 2, 'B', { queue: 'exports' })
  expect(await d.fetch({ queues: ['q', 'exports'], count: 10 })).toHaveLength(2)
  expect((await d.get('/ojs/v1/queues/q/stats')).body).toMatchObject({ available: 2, active: 1 })
  const { body } = await d.get('/ojs/v1/rate-limits/gate?partition=A')
  expect(body).toMatchObject({ key: 'gate', waiting_count: 2, rate: { limit: 1, period: 'PT10S', current_count: 1 } })
})

test('a share of a common limit is refused without that: the job would not pay there', async () => {
  const outbound = limit('outbound', { rate: 10, per: '1s' })
  const calls = limit('calls', { rate: 5, per: '1s', of: { limit: outbound, atLeast: '1/s' } })
  const d = await HttpHarness.open({ engine: { limits: [outbound, calls] } })
  const options = { rate_limit: { x_limit: { name: 'calls', key: 'a' } } }
  expect(await d.post('/ojs/v1/jobs', { type: 'work', args: [], options })).toMatchObject({ status: 422 })
  await d.push({ rate_limit: { x_limit: { name: 'outbound' } } })
})

function sendFetch(d: HttpHarness): ReturnType<HttpHarness['post']> {
  return d.post('/ojs/v1/workers/fetch', { queues: ['q'], worker_id: 'w' })
}
