import { expect, test } from 'vitest'
import { type JobFilter, jobMatch } from '../../../src/jobs/job-filter.ts'
import type { JobState } from '../../../src/jobs/job-state.ts'
import type { JobQuery } from '../../../src/jobs/job.ts'
import type { StoreBackend } from './backend.ts'
import { eachHarness, FAILURE, type StoreHarness } from './store-harness.ts'

/** Texts that differ in how JSON, SQL and stores write them. */
const ODD = [
  'a"b',
  "o'clock",
  'back\\slash',
  'line\nfeed',
  'nul\0here',
  '%_',
  'ünïcode 😀',
  '\uD800',
  '"meta":',
  '[]{}',
]

/** The names of jobs that match, newest first; the count must be the same. */
async function found(w: StoreHarness, filter: JobFilter, page: Pick<JobQuery, 'limit'> = {}): Promise<string[]> {
  const match = jobMatch(filter, 'test')
  if (!match) return []
  const jobs = await w.store.list({ limit: 1000, ...match, ...page })
  if (page.limit === undefined) expect(await w.store.countJobs(match)).toBe(jobs.length)
  return jobs.map((job) => job.task)
}

export function findJobs(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('by tag: all of them, and no other text that looks like one', async () => {
    const w = harness()
    await w.add('a', { extra: { tags: ['red', 'blue'] } })
    await w.add('b', { extra: { tags: ['red'] } })
    await w.add('c', { extra: { meta: { note: 'red', red: 'blue' } } })
    await w.add('d', { extra: { tags: ['reddish', 'Red'] } })
    expect(await found(w, { tags: ['red'] })).toEqual(['b', 'a'])
    expect(await found(w, { tags: ['red', 'blue'] })).toEqual(['a'])
    expect(await found(w, { tags: ['re'] })).toEqual([])
  })

  test('by values of meta, as texts', async () => {
    const w = harness()
    await w.add('a', { extra: { meta: { shop: 5, at: 'rome' } } })
    await w.add('b', { extra: { meta: { shop: '5' }, tags: ['rome'] } })
    await w.add('c', { extra: { meta: { other: { shop: 5 } } } })
    await w.add('d', { extra: { meta: { shop: null, shops: 5 } } })
    expect(await found(w, { meta: { shop: 5 } })).toEqual(['b', 'a'])
    expect(await found(w, { meta: { shop: '5', at: 'rome' } })).toEqual(['a'])
    expect(await found(w, { meta: { shop: null } })).toEqual(['d'])
    expect(await found(w, { meta: { toString: 'x' } })).toEqual([])
  })

  test.each(ODD)('by the odd text %j in each field', async (odd) => {
    const w = harness()
    await w.add('tag', { extra: { tags: [odd] } })
    await w.add('meta', { extra: { meta: { [odd]: odd } } })
    await w.add('input', { input: JSON.stringify({ note: `x${odd}x` }) })
    await w.add('plain', { input: '"nothing"', extra: { meta: { x: 'y' }, tags: ['z'] } })
    await w.add('failed')
    await w.start({ tasks: ['failed'] })
    await w.settle('failed', { kind: 'discard', error: { ...FAILURE, message: `no ${odd} no` } })
    expect(await found(w, { tags: [odd] })).toEqual(['tag'])
    expect(await found(w, { meta: { [odd]: odd } })).toEqual(['meta'])
    expect(await found(w, { error: odd })).toEqual(['failed'])
    expect(await found(w, { text: odd })).toEqual(['failed', 'input', 'meta', 'tag'])
    for (const name of ['queue', 'task', 'limitName', 'schedule', 'flow', 'uniqueKey'] as const)
      expect(await found(w, { [name]: odd })).toEqual([])
    expect(await found(w, { limitName: 'r', limitKey: odd })).toEqual([])
    expect(await found(w, { ids: [odd] })).toEqual([])
  })

  test('by a text in small or capital letters', async () => {
    const w = harness()
    await w.add('Mail.Send', { input: '{"to":"Ann@Example.com"}' })
    await w.add('b', { extra: { trace: { traceparent: 'example' } } })
    await w.add('c', { unique: { key: 'c:ORDER-7' } })
    expect(await found(w, { text: 'mail.send' })).toEqual(['Mail.Send'])
    expect(await found(w, { text: 'ann@EXAMPLE' })).toEqual(['Mail.Send'])
    expect(await found(w, { text: '"to":"ann' })).toEqual(['Mail.Send'])
    expect(await found(w, { text: 'order-7' })).toEqual(['c'])
    expect(await found(w, { text: w.id('b').slice(3).toUpperCase() })).toEqual(['b'])
  })

  test('by the code of an error, or a part of its message', async () => {
    const w = harness()
    await w.add('a', {}, 3)
    await w.start()
    await w.settle('a1', { kind: 'discard', error: { code: 'http.503', message: 'Bad Gateway' } })
    await w.settle('a2', { kind: 'discard', error: { code: 'http.5030', message: 'no' } })
    await w.complete('a3')
    expect(await found(w, { error: 'HTTP.503' })).toEqual(['a1'])
    expect(await found(w, { error: 'gateway' })).toEqual(['a1'])
    expect(await found(w, { error: 'message' })).toEqual([])
  })

  test('by a limit and its key, until they have ended well', async () => {
    const w = harness()
    await w.define({ r: { concurrency: 3 }, s: { rate: 9, per: '1s' }, 'r","x': { rate: 1, per: '1s' } })
    await w.add('a', { limits: ['r:x'] })
    await w.add('b', { limits: ['r:y', 's'] })
    await w.add('c', { limits: ['s:x'], fairKey: 'r' })
    await w.add('d')
    await w.add('e', { limits: ['r","x'] })
    expect(await found(w, { limitName: 'r' })).toEqual(['b', 'a'])
    expect(await found(w, { limitName: 'r', limitKey: 'x' })).toEqual(['a'])
    expect(await found(w, { limitName: 's' })).toEqual(['c', 'b'])
    expect(await found(w, { limitName: 's', limitKey: '' })).toEqual(['b'])
    await w.start()
    expect(await found(w, { limitName: 'r' })).toEqual(['b', 'a'])
    await w.settle('a', { kind: 'discard', error: FAILURE })
    await w.complete('b')
    expect(await found(w, { limitName: 'r' })).toEqual(['a'])
  })

  test('by unique key, schedule, flow and ids', async () => {
    const w = harness()
    await w.add('a', { unique: { key: 'a:k' } })
    await w.add('b', { unique: { key: 'b:k' } })
    await w.add('c', { occurrence: { schedule: 'nightly', dueMs: 0 } })
    const flow = await w.chain('x', 'y')
    expect(await found(w, { uniqueKey: 'k' })).toEqual(['b', 'a'])
    expect(await found(w, { uniqueKey: 'k', task: 'a' })).toEqual(['a'])
    expect(await found(w, { uniqueKey: 'a:k' })).toEqual([])
    expect(await found(w, { schedule: 'nightly' })).toEqual(['c'])
    expect(await found(w, { flow })).toEqual(['x', 'y'])
    expect(await found(w, { flow, text: 'y' })).toEqual(['y'])
    expect(await found(w, { ids: [w.id('a'), w.id('c'), w.id('a')] })).toEqual(['c', 'a'])
  })

  test('by the time of their enqueue, from the first instant on and before the last', async () => {
    const w = harness()
    for (const ms of [0, 1000, 2000]) {
      w.at(ms)
      await w.add(`at${ms}`)
    }
    const wallMs = w.clock.now()
    expect(await found(w, { since: new Date(wallMs - 1000) })).toEqual(['at2000', 'at1000'])
    expect(await found(w, { until: new Date(wallMs - 1000) })).toEqual(['at0'])
    expect(await found(w, { since: '1s', until: '0s' })).toEqual(['at1000'])
    expect(await found(w, { since: new Date(wallMs - 1000).toISOString() })).toEqual(['at2000', 'at1000'])
    expect(await found(w, { since: '1970-01-01', until: '2199-12-31' })).toHaveLength(3)
  })

  test('by the beginning of their queue, as a tenant has it', async () => {
    const w = harness()
    await w.add('own', { queue: 'acme/q' })
    await w.add('other', { queue: 'acm/q' })
    await w.add('none', { queue: 'q' })
    const names = async (query: JobQuery): Promise<string[]> => (await w.store.list(query)).map((job) => job.task)
    expect(await names({ queuePrefix: 'acme/' })).toEqual(['own'])
    expect(await names({ queueWithout: '/' })).toEqual(['none'])
    expect(await w.store.countJobs({ queuePrefix: 'acm' })).toBe(2)
  })

  test('a page is full although many candidates do not match', async () => {
    const w = harness()
    await w.add('no', { extra: { meta: { x: 'red' } } }, 7)
    await w.add('yes', { extra: { tags: ['red'] } }, 3)
    await w.add('not', { extra: { meta: { x: 'red' } } }, 7)
    await w.add('and', { extra: { tags: ['red'] } }, 2)
    expect(await found(w, { tags: ['red'] }, { limit: 4 })).toEqual(['and2', 'and1', 'yes3', 'yes2'])
    expect(await found(w, { tags: ['red'] }, { limit: 5 })).toHaveLength(5)
  })

  test('jobs in some states are found by their states, at most so many', async () => {
    const w = harness()
    await w.add('a', {}, 5)
    const running = await w.start(2)
    await w.complete(running[0]!)
    const seqOf = async (state: JobState): Promise<number[]> =>
      (await w.store.list({ states: [state] })).map(({ seq }) => seq)
    const [[active], [completed]] = [await seqOf('active'), await seqOf('completed')]
    expect(await w.store.jobsInStates(['active'], 9)).toEqual([active])
    const both = await w.store.jobsInStates(['active', 'completed', 'discarded'], 9)
    expect(both.toSorted((a, b) => a - b)).toEqual([active!, completed!].toSorted((a, b) => a - b))
    expect(await w.store.jobsInStates(['active', 'completed'], 1)).toEqual([active])
    expect((await w.store.list({ seqs: [active!, completed!], states: ['active'] })).length).toBe(1)
    expect(await w.store.countJobs({}, { seqs: both, before: Math.max(...both) })).toBe(1)
  })

  test('in spans: the oldest of so many, and what lies between', async () => {
    const w = harness()
    await w.add('a', {}, 5)
    const seqs = (await w.store.list({})).map(({ seq }) => seq)
    expect(await w.store.oldestOf(2)).toBe(seqs[1])
    expect(await w.store.oldestOf(2, seqs[1])).toBe(seqs[3])
    expect(await w.store.oldestOf(9, seqs[1])).toBe(seqs[4])
    expect(await w.store.oldestOf(9, seqs[4])).toBeNull()
    expect(await w.store.countJobs({}, { from: seqs[3]!, before: seqs[0]! })).toBe(3)
  })
}
