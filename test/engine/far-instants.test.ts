import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { expect, test } from 'vitest'
import { call, input, limit, Sluice, task } from '../../src/exports/index.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { MIGRATIONS } from '../../src/store/sqlite/sql/embedded.ts'
import { onPostgres, onSqlite } from '../stores.ts'
import { createEngineHarness } from './engine-harness.ts'

const END = new Date('2200-01-01T00:00:00Z')
const LAST = new Date(END.getTime() - 1)
const REFUSED = { code: 'option.invalid' }
const FAR = [END, new Date('9999-12-31'), new Date(8.64e15)]
const crm = limit('crm', { rate: 5, per: '1s' })
const work = task('work.item', input<string>(), { limits: [crm], run: () => undefined })

test('what would start, expire or end in 2200 or later is refused wherever it is said', async () => {
  const { start } = createEngineHarness()
  const engine = await start({ tasks: [work] })
  for (const date of FAR) {
    await expect(work.enqueue('a', { runAt: date })).rejects.toMatchObject(REFUSED)
    await expect(work.enqueue('a', { expiresAt: date })).rejects.toMatchObject(REFUSED)
    await expect(work.enqueueMany(['a', 'b'], { runAt: date })).rejects.toMatchObject(REFUSED)
    await expect(engine.schedule(work, 'a', { every: '1h', until: date })).rejects.toMatchObject(REFUSED)
    await expect(engine.limits.override('crm', undefined, { rate: 1 }, { until: date })).rejects.toMatchObject(REFUSED)
    await expect(engine.limits.pause('crm', undefined, { until: date })).rejects.toMatchObject(REFUSED)
    await expect(engine.limits.penalize('crm', undefined, date)).rejects.toMatchObject(REFUSED)
    const flow = { kind: 'group', jobs: [call(work, 'a', { runAt: date })] } as const
    await expect(engine.flows.start(flow)).rejects.toMatchObject(REFUSED)
  }
  expect(await engine.jobs.list()).toEqual([])
})

test('a delay that ends in 2200 or later is refused', async () => {
  const clock = createManualClock({ start: new Date('2150-01-01') })
  const engine = new Sluice({ store: 'sqlite::memory:', tasks: [work], clock })
  await expect(engine.enqueue(work, 'a', { delay: '18262d' })).rejects.toMatchObject(REFUSED)
  const flow = { kind: 'group', jobs: [call(work, 'a', { delay: '36525d' })] } as const
  await expect(engine.flows.start(flow)).rejects.toMatchObject(REFUSED)
  await expect(engine.limits.penalize('crm', undefined, '36525d')).rejects.toMatchObject(REFUSED)
  await engine.enqueue(work, 'a', { delay: '18250d' })
  await engine.stop()
})

test('the last instants and those long past are taken, and delay no other job', async () => {
  const { clock, start } = createEngineHarness()
  const engine = await start({ tasks: [work] })
  const late = await work.enqueue('late', { runAt: LAST, expiresAt: LAST })
  const past = await work.enqueue('past', { runAt: new Date(-8.64e15) })
  const gone = await work.enqueue('gone', { expiresAt: new Date(-8.64e15) })
  const plain = await work.enqueue('plain')
  await engine.limits.penalize('crm', 'other', LAST)
  await clock.advance('1m')
  const states = await Promise.all([late, past, gone, plain].map(async ({ id }) => (await engine.jobs.get(id))?.state))
  expect(states).toEqual(['scheduled', 'completed', 'discarded', 'completed'])
  expect((await engine.jobs.explain(late.id)).expectedStart).toEqual(LAST)
})

test('corrections of a charge bring no budget beyond what can be read again', async () => {
  const { clock, start } = createEngineHarness()
  const slow = limit('slow', { rate: 1, per: '1h', burst: 2 })
  const billed = task('billed.item', {
    limits: [slow],
    run: (_, ctx) => {
      for (const units of [1e300, Number.MAX_SAFE_INTEGER, 1e9, 1e9]) ctx.charge(slow, units)
    },
  })
  const engine = await start({ tasks: [billed, work] })
  await billed.enqueue()
  await clock.advance('1m')
  const waiting = await billed.enqueue()
  const plain = await work.enqueue('plain')
  await clock.advance('1m')
  expect((await engine.jobs.get(plain.id))?.state).toBe('completed')
  expect((await engine.jobs.get(waiting.id))?.state).toBe('available')
  expect((await engine.jobs.explain(waiting.id)).words).toContain('slow')
  expect(await engine.limits.inspect('slow')).toHaveLength(1)
})

test('a file in which an earlier version has kept such an instant is read again', async () => {
  const { clock, create, stop } = createEngineHarness()
  const store = onSqlite.create()
  const before = create({ tasks: [work], store })
  const far = await before.enqueue(work, 'far', { delay: '1h' })
  await stop(before)
  const file = new DatabaseSync(store.slice('sqlite:'.length))
  file.exec('UPDATE jobs SET due = 253402214400000000, expires = 8640000000000000000')
  file.exec(MIGRATIONS.find((each) => each.includes(String(END.getTime() * 1000))) ?? '')
  file.close()
  const after = create({ tasks: [work], store })
  await after.start()
  const plain = await after.enqueue(work, 'plain')
  await clock.advance('2h')
  expect((await after.jobs.get(plain.id))?.state).toBe('completed')
  expect((await after.jobs.explain(far.id)).expectedStart).toEqual(END)
})

const postgres = await onPostgres('instants that SQL enqueues')
test.runIf(postgres)('SQL refuses the same instants, and takes those long past', async () => {
  const url = postgres?.create() ?? ''
  const schema = /schema=(\w+)/.exec(url)?.[1]
  const engine = new Sluice({ store: url, tasks: [work] })
  await engine.jobs.list()
  const client = new Client({ connectionString: url.replace(/[?&]schema=\w+/, '') })
  await client.connect()
  const enqueue = async (options: string): Promise<string> =>
    (await client.query<{ id: string }>(`SELECT ${schema}.enqueue('work.item', ${options}) AS id`)).rows[0]?.id ?? ''
  try {
    for (const at of ['2200-01-01T00:00:00Z', '9999-12-31', 'infinity']) {
      await expect(enqueue(`run_at => '${at}'`)).rejects.toMatchObject({ code: '22023' })
      await expect(enqueue(`expires_at => '${at}'`)).rejects.toMatchObject({ code: '22023' })
    }
    const past = await enqueue("run_at => '-infinity'")
    expect((await engine.jobs.get(past))?.state).toBe('available')
    expect((await engine.jobs.get(await enqueue("run_at => '2199-12-31T23:59:59Z'")))?.state).toBe('scheduled')
    const long = 'k'.repeat(2000)
    const byKey = await enqueue(`limits => '[{"limit": "crm", "key": "${long}"}]'`)
    const same = await engine.enqueue(work, 'a', { limits: [crm.key(long)] })
    const [{ count } = { count: 0 }] = (
      await client.query<{ count: number }>(
        `SELECT count(DISTINCT u ->> 1)::int AS count FROM ${schema}.jobs, json_array_elements(uses::json) u WHERE id = ANY ($1) AND u ->> 1 <> ''`,
        [[byKey, same.id]],
      )
    ).rows
    expect(count).toBe(1)
  } finally {
    await client.end()
    await engine.stop()
  }
})
