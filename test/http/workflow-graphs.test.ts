// Workflows whose steps say what they depend on, as the SDKs for Go and Python send all of theirs, and workflows within workflows.
import { describe, expect, test } from 'vitest'
import { everyStore } from '../stores.ts'
import { HttpHarness, type Json } from './http-harness.ts'

const KINDS = await everyStore('workflows of steps over HTTP')
const step = (id: string, ...dependsOn: string[]): Json => ({
  id,
  type: `do.${id.replace('-', '_')}`,
  args: [id],
  depends_on: dependsOn,
  options: { queue: 'q' },
})
const job = (name: string): Json => ({ type: name, args: [name], options: { queue: 'q' } })

/** Runs what there is to run, wave by wave; each result is what was run. */
async function waves(d: HttpHarness, fails: readonly string[] = []): Promise<[string[], Json][]> {
  const seen: [string[], Json][] = []
  for (;;) {
    const { body } = await d.post('/ojs/v1/workers/fetch', { queues: ['q', 'default'], count: 99, worker_id: 'w' })
    const jobs = body['jobs'] as Json[]
    if (jobs.length === 0) return seen
    const results = Object.fromEntries(jobs.map((each) => [each['args'][0], each['parent_results']]))
    seen.push([jobs.map((each) => each['args'][0] as string).toSorted(), results])
    for (const each of jobs)
      if (fails.includes(each['args'][0] as string)) await d.nack(each['id'] as string, { retryable: false })
      else await d.ack(each['id'] as string, { result: each['args'][0] })
  }
}

const totalOf = async (d: HttpHarness): Promise<number> =>
  (await d.get('/ojs/v1/admin/jobs')).body['pagination'].total as number

describe.each(KINDS)('on $name, steps[].depends_on', (kind) => {
  const open = (): Promise<HttpHarness> => HttpHarness.open({ engine: { store: kind.create() } })

  test('a diamond: each step runs once those it depends on have completed, and is handed their results', async () => {
    const d = await open()
    const { status, body } = await d.post('/ojs/v1/workflows', {
      name: 'diamond',
      steps: [step('end', 'left', 'right'), step('left', 'start'), step('right', 'start'), step('start')],
    })
    expect(status).toBe(201)
    expect(body['workflow']).toMatchObject({
      name: 'diamond',
      state: 'running',
      created_at: expect.any(String) as string,
    })
    expect((body['workflow'].steps as Json[]).map((each) => [each['id'], each['depends_on']])).toEqual([
      ['start', []],
      ['left', ['start']],
      ['right', ['start']],
      ['end', ['left', 'right']],
    ])
    expect(await waves(d)).toEqual([
      [['start'], { start: [] }],
      [['left', 'right'], { left: ['start'], right: ['start'] }],
      [['end'], { end: ['start', 'left', 'right'] }],
    ])
    const got = (await d.get(`/ojs/v1/workflows/${body['workflow'].id as string}`)).body['workflow'] as Json
    expect(got).toMatchObject({ state: 'completed' })
    expect((got['steps'] as Json[]).map((each) => each['state'])).toEqual(Array.from({ length: 4 }, () => 'completed'))
  })

  test('a step that fails stops those that depend on it, and no other', async () => {
    const d = await open()
    const { body } = await d.post('/ojs/v1/workflows', {
      name: 'n',
      steps: [step('a'), step('b', 'a'), step('c'), step('d', 'c')],
    })
    const ran = (await waves(d, ['a'])).map(([names]) => names)
    expect(ran).toEqual([['a', 'c'], ['d']])
    expect((await d.get(`/ojs/v1/workflows/${body['id'] as string}`)).body['workflow']).toMatchObject({
      state: 'failed',
    })
  })

  test.each<[string, (name: string) => Json]>([
    ['by their ids, as Go does', (name) => step(name.replace('_', '-'), 'job-0', 'job-1')],
    [
      'by callback_type, as Python does',
      (name) => ({ ...step(name, 'job-0', 'job-1'), options: { queue: 'q', callback_type: name } }),
    ],
  ])('callbacks of a batch are steps that depend on all, told apart %s', async (_how, callback) => {
    const d = await open()
    const jobs = [step('job-0'), step('job-1')]
    const steps = [...jobs, callback('on_complete'), callback('on_success'), callback('on_failure')]
    const name = 'batch'
    expect((await d.post('/ojs/v1/workflows', { name, steps })).status).toBe(201)
    const called = (ran: [string[], Json][]): string[] => ran[1]?.[0].map((each) => each.replace('-', '_')) ?? []
    expect(called(await waves(d))).toEqual(['on_complete', 'on_success'])
    await d.post('/ojs/v1/workflows', { name, steps })
    expect(called(await waves(d, ['job-1']))).toEqual(['on_complete', 'on_failure'])
  })

  test('options of the workflow hold for each step that does not say otherwise', async () => {
    const d = await open()
    const steps = [{ ...step('a'), options: undefined }, step('b')]
    await d.post('/ojs/v1/workflows', { name: 'n', steps, options: { queue: 'default', priority: 7 } })
    const { body } = await d.get('/ojs/v1/admin/jobs')
    const queues = (body['items'] as Json[])
      .map((each) => [each['args'][0], each['queue'], each['priority']])
      .toSorted()
    expect(queues).toEqual([
      ['a', 'default', 7],
      ['b', 'q', 7],
    ])
  })

  test.each<[string, Json[], number]>([
    ['a circle', [step('a', 'b'), step('b', 'a')], 422],
    ['itself', [step('a', 'a')], 422],
    ['a step that is not there', [step('a', 'z')], 422],
    ['an id twice', [step('a'), step('a')], 422],
    ['no id', [{ type: 'x', args: [] }], 400],
    ['a misspelt option', [{ ...step('a'), options: { quue: 'q' } }], 400],
  ])('%s is refused, and nothing is stored', async (_name, steps, status) => {
    const d = await open()
    const answer = await d.post('/ojs/v1/workflows', { name: 'n', steps })
    expect([answer.status, answer.body['error'].code]).toEqual([status, 'invalid_request'])
    expect(await totalOf(d)).toBe(0)
  })
})

describe.each(KINDS)('on $name, a workflow within a workflow', (kind) => {
  const open = (): Promise<HttpHarness> => HttpHarness.open({ engine: { store: kind.create() } })
  const runOf = async (d: HttpHarness, body: Json): Promise<string[][]> => {
    const { status } = await d.post('/ojs/v1/workflows', body)
    expect(status).toBe(201)
    return (await waves(d)).map(([names]) => names)
  }

  test('a group in a chain: its jobs run side by side, and what follows waits for all of them', async () => {
    const group = { type: 'group', jobs: [job('b'), job('c')] }
    expect(await runOf(await open(), { type: 'chain', steps: [job('a'), group, job('d')] })).toEqual([
      ['a'],
      ['b', 'c'],
      ['d'],
    ])
  })

  test('chains in a group, and a group in one of them', async () => {
    const inner = { type: 'group', jobs: [job('c'), job('d')] }
    const chains = [
      { type: 'chain', steps: [job('a'), job('b')] },
      { type: 'chain', steps: [inner, job('e')] },
    ]
    expect(await runOf(await open(), { type: 'group', jobs: chains })).toEqual([
      ['a', 'c', 'd'],
      ['b', 'e'],
    ])
  })

  test('chains in a batch: it calls back once all have ended', async () => {
    const jobs = [{ type: 'chain', steps: [job('a'), job('b')] }, job('c')]
    const ran = await runOf(await open(), { type: 'batch', jobs, callbacks: { on_success: job('d') } })
    expect(ran).toEqual([['a', 'c'], ['b'], ['d']])
  })

  test('chain, group and batch, three deep: a batch ends with its callback', async () => {
    const batch = { type: 'batch', jobs: [job('c'), job('d')], callbacks: { on_success: job('e') } }
    const group = { type: 'group', jobs: [{ type: 'chain', steps: [job('b'), batch] }, job('f')] }
    expect(await runOf(await open(), { type: 'chain', steps: [job('a'), group, job('g')] })).toEqual([
      ['a'],
      ['b', 'f'],
      ['c', 'd'],
      ['e'],
      ['g'],
    ])
    const chain = { type: 'chain', steps: [job('a'), { type: 'group', jobs: [job('b'), batch] }] }
    const ran = await runOf(await open(), {
      type: 'batch',
      jobs: [chain, job('f')],
      callbacks: { on_complete: job('g') },
    })
    expect(ran).toEqual([['a', 'f'], ['b', 'c', 'd'], ['e'], ['g']])
  })

  test('a batch in a workflow that calls back on failure is refused, and nothing is stored', async () => {
    const d = await open()
    for (const callbacks of [{ on_failure: job('c') }, { on_success: job('c'), on_complete: job('d') }, {}]) {
      const batch = { type: 'batch', jobs: [job('b')], callbacks }
      const { status, body } = await d.post('/ojs/v1/workflows', { type: 'chain', steps: [job('a'), batch] })
      expect(status).toBe(422)
      expect(body['error'].message).toContain('Expected on_success alone')
    }
    expect(await totalOf(d)).toBe(0)
  })
})
