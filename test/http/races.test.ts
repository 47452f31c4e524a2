// Requests that meet: one of them wins, and what is stored is never denied.
import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { describe, expect, test } from 'vitest'
import { everyStore } from '../stores.ts'
import { HttpHarness, type Answer, type Json } from './http-harness.ts'

const KINDS = await everyStore('races over HTTP')

const events = async (d: HttpHarness, id: string): Promise<string[]> =>
  ((await d.get('/ojs/v1/events?limit=1000')).body['events'] as Json[])
    .filter((event) => event['subject'] === id)
    .map((event) => event['type'] as string)

const won = (answers: readonly Answer[]): number => answers.filter(({ status }) => status === 200).length

describe.each(KINDS)('on $name, settlements of one run that race', (kind) => {
  test('30 acks: one is told 200, 29 are told 409; one event, one permit', async () => {
    const d = await HttpHarness.open({ engine: { store: kind.create() } })
    for (let i = 0; i < 6; i++) await d.push({ rate_limit: { key: 'k', concurrency: 2 } })
    const [id] = (await d.fetch({ count: 100 })) as [string]
    const acks = await Promise.all(Array.from({ length: 30 }, (_, i) => d.ack(id, { result: i })))
    expect(won(acks)).toBe(1)
    expect(acks.filter(({ status }) => status === 409)).toHaveLength(29)
    expect((await d.job(id))['result']).toBe(acks.findIndex(({ status }) => status === 200))
    expect((await events(d, id)).filter((type) => type === 'job.completed')).toHaveLength(1)
    expect(await d.fetch({ count: 100 })).toHaveLength(1)
  })

  test.each(['nack first', 'ack first'])('acks and nacks, %s: the job is as the winner was told', async (order) => {
    const d = await HttpHarness.open({ engine: { store: kind.create() } })
    const id = await d.push({ retry: { max_attempts: 3, initial_interval: 'PT5S', jitter: false } })
    await d.fetch()
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => ((i % 2 === 0) === (order === 'ack first') ? d.ack(id) : d.nack(id))),
    )
    expect(won(answers)).toBe(1)
    const winner = answers.find(({ status }) => status === 200)
    expect((await d.job(id))['state']).toBe(winner?.body['state'])
    const ends = (await events(d, id)).filter((type) => type === 'job.completed' || type === 'job.failed')
    expect(ends).toHaveLength(1)
  })

  test('over two servers', async () => {
    const store = kind.create()
    const d = await HttpHarness.open({ engine: { store } })
    const other = await HttpHarness.open({ engine: { store }, clock: d.clock })
    const id = await d.push()
    await d.fetch()
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) => (i % 2 ? d : other).ack(id, { worker_id: 'w', attempt: 1 })),
    )
    expect(won(answers)).toBe(1)
    const told = [...(await events(d, id)), ...(await events(other, id))]
    expect(told.filter((type) => type === 'job.completed')).toHaveLength(1)
  })
})

/** Runs SQL in a store from outside. */
async function sql(url: string, statements: { sqlite: string; postgres: string }): Promise<void> {
  if (url.startsWith('sqlite:')) {
    const db = new DatabaseSync(url.slice('sqlite:'.length))
    db.exec(statements.sqlite)
    db.close()
    return
  }
  const client = new Client({ connectionString: url })
  await client.connect()
  await client.query(statements.postgres.replaceAll('sluice.', `${new URL(url).searchParams.get('schema')}.`))
  await client.end()
}

describe.each(KINDS)('on $name, what was stored is never answered with an error', (kind) => {
  test('though what is left of its budget cannot be read', async () => {
    const store = kind.create()
    const d = await HttpHarness.open({ engine: { store } })
    const rate = { key: 'k', rate: { limit: 5, period: 'PT1M' } }
    await d.push({ rate_limit: rate })
    await d.fetch()
    await sql(store, {
      sqlite: `UPDATE buckets SET state = '{'`,
      postgres: `UPDATE sluice.buckets SET state = '{'`,
    })
    const { status, body } = await d.post('/ojs/v1/jobs', { type: 'work', args: [2], options: { rate_limit: rate } })
    expect([status, body['job']?.state]).toEqual([201, 'available'])
  })

  test('though it cannot be read back', async () => {
    const store = kind.create()
    const d = await HttpHarness.open({ engine: { store } })
    await d.push()
    const rename = (from: string, to: string): Promise<void> =>
      sql(store, {
        sqlite: `ALTER TABLE jobs RENAME COLUMN ${from} TO ${to}`,
        postgres: `ALTER TABLE sluice.jobs RENAME COLUMN ${from} TO ${to}`,
      })
    await rename('progress', 'progress_away')
    const one = await d.post('/ojs/v1/jobs', { type: 'work', args: [2], options: { queue: 'q', delay: 'PT5S' } })
    expect([one.status, one.body['job']]).toMatchObject([201, { type: 'work', args: [2], state: 'scheduled' }])
    const two = await d.post('/ojs/v1/jobs/batch', { jobs: [{ type: 'work', args: [3] }] })
    expect([two.status, two.body['jobs'][0].args]).toEqual([201, [3]])
    await rename('progress_away', 'progress')
    expect(await d.job(one.body['job'].id as string)).toMatchObject({ state: 'scheduled', args: [2] })
    expect(await d.job(two.body['jobs'][0].id as string)).toMatchObject({ args: [3] })
  })
})
