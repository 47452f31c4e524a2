import { describe, expect, test } from 'vitest'
import { input, limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { HttpHarness, type Json } from '../http/http-harness.ts'
import { sluice } from './terminal.ts'

const kinds = await everyStore('sluice enqueue')

describe.each(kinds)('on $name', ({ create }) => {
  test('sluice enqueue stores a job that waits for the limits it names; schedules run stores one more', async () => {
    const url = create()
    const ran: unknown[] = []
    const work = task('work', input<unknown>(), {
      limits: [limit('crm', { rate: 1, per: '1h' })],
      run: (given) => void ran.push(given),
    })
    const options = { store: url, tasks: [work], logger: silentLogger }
    const first = new Sluice(options)
    await first.schedule(work, { of: 'schedule' }, { cron: '0 9 1 1 *', timezone: 'UTC', name: 'yearly' })
    await first.stop()
    const run = (...args: string[]): ReturnType<typeof sluice> => sluice([...args, '--json', '--store', url])
    const one = await run('enqueue', 'work', '{"a":"ü"}', '--limit', 'crm', '--unique', 'k', '--priority', '5')
    expect(one).toMatchObject({ code: 0, err: '' })
    const { id, created } = JSON.parse(one.out) as { id: string; created: boolean }
    expect(created).toBe(true)
    const again = await run('enqueue', 'work', '--limit', 'crm', '--unique', 'k')
    expect(JSON.parse(again.out)).toEqual({ id, created: false })
    expect(await run('schedules', 'run', 'yearly')).toMatchObject({ code: 0, err: '' })
    expect(await run('schedules', 'run', 'daily')).toMatchObject({ code: 1, out: '' })
    const engine = new Sluice(options)
    await engine.start()
    await expect.poll(() => ran).toEqual([{ a: 'ü' }])
    const [waiting] = await engine.jobs.list({ states: ['available'] })
    expect(waiting).toMatchObject({ input: { of: 'schedule' }, task: 'work' })
    await engine.stop()
  })

  test('sluice enqueue stores a job in a tenant’s queue that the store has, with the tenant’s unique keys', async () => {
    const url = create()
    const d = await HttpHarness.open({ engine: { store: url } })
    const acme = { headers: { 'X-OJS-Tenant': 'acme' } }
    await d.push({ queue: 'mail' }, {}, acme)
    const run = (queue: string, ...more: string[]): ReturnType<typeof sluice> =>
      sluice(['enqueue', 'work', '[1]', '--no-limits', '--queue', queue, '--json', '--store', url, ...more])
    const stored = await run('acme/mail', '--unique', 'k')
    expect(stored).toMatchObject({ code: 0, err: '' })
    const { id } = JSON.parse(stored.out) as { id: string }
    const theirs = (await d.get(`/ojs/v1/jobs/${id}`, acme)).body['job'] as Json
    expect([theirs['queue'], theirs['meta']]).toEqual(['mail', { tenant_id: 'acme' }])
    expect((await d.get(`/ojs/v1/jobs/${id}`, { headers: { 'X-OJS-Tenant': 'beta' } })).status).toBe(404)
    const body = { task: 'work', queue: 'mail', limits: [], unique: 'k' }
    const sending = { headers: { ...acme.headers, 'X-Sluice-Request': '1' } }
    expect((await d.post('/monitor/v1/jobs', body, sending)).body).toMatchObject({ created: false, job: { id } })
    expect(await run('mail', '--unique', 'k')).toMatchObject({
      code: 0,
      out: expect.stringContaining('true') as string,
    })
    const unknown = await run('acne/mail')
    expect(unknown).toMatchObject({ code: 2, out: '' })
    expect(unknown.err).toContain('acne/mail')
  })
})

test.each([
  [['work', '{', '--no-limits'], 2, 'not JSON'],
  [['work', '{"id":9007199254740993}', '--no-limits'], 2, '9007199254740993 cannot be stored exactly'],
  [['Work Item', '--no-limits'], 2, 'task name is invalid'],
  [['work..item', '--no-limits'], 2, 'task name is invalid'],
  [['work'], 2, 'Name each with --limit'],
  [['work', '--limit', 'crm', '--no-limits'], 2, 'exclude each other'],
  [['work', '--limit', 'nope'], 1, 'No limit'],
  [['work', '--limit', 'crm=a', '--limit', 'crm=a'], 1, 'No limit'],
  [['work', '--limit', 'crm='], 2, 'The key of --limit "crm=" is empty. Name the key, or write --limit crm'],
  [['work', '--no-limits', '--priority', 'high'], 2, 'priority'],
  [['work', '--no-limits', '--queue', 'No Queue'], 2, 'queue name is invalid'],
  [['work', '--no-limits', '--run-at', 'soon'], 2, 'The time "soon"'],
  [['work', '--no-limits', '--delay', '1s', '--run-at', '2100-01-01T00:00:00Z'], 2, 'exclude each other'],
])('sluice enqueue %j stores nothing', async (args, code, words) => {
  const url = kinds[0]?.create() ?? ''
  await new Sluice({ store: url, tasks: [], logger: silentLogger }).jobs.list()
  const ended = await sluice(['enqueue', ...args, '--store', url])
  expect(ended).toMatchObject({ code, out: '' })
  expect(ended.err).toContain(words)
})
