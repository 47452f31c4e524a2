// Rows that no process can read: written by an earlier version, or changed by other hands.
import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { input, limit, Sluice, task } from '../../src/exports/index.ts'
import { openExisting } from '../../src/store/open.ts'
import { everyStore } from '../stores.ts'
import { record } from './engine-harness.ts'

/** On a busy machine a claim may take its time. */
const eventually = (check: () => unknown): Promise<unknown> => vi.waitFor(check, { timeout: 60_000 })
const crm = limit('crm', { rate: 1000, per: '1s' })

describe.each(await everyStore('rows that cannot be read'))('on $name', ({ name, create }) => {
  interface Set {
    readonly engine: Sluice
    readonly ran: string[]
    readonly complaints: string[]
    readonly enqueue: (key: string, options?: { weight?: number; delay?: '1h' }) => Promise<string>
    /** Runs a statement as other hands would. */
    readonly change: (sql: string) => Promise<void>
    readonly start: () => Promise<void>
    /** Another engine of the same code starts. */
    readonly again: () => Promise<void>
    readonly free: () => Promise<unknown>
    /** The job as an export reads it. */
    readonly stored: (id: string) => Promise<unknown>
  }

  async function set(): Promise<Set> {
    const ran: string[] = []
    const complaints: string[] = []
    const store = create()
    const work = task('work.item', input<string>(), {
      limits: [crm.by((key) => key)],
      retry: { attempts: 2, backoff: 'none' },
      run: (key) => void ran.push(key),
    })
    const free = task('free.item', { run: () => void ran.push('free') })
    const log = (_: object, message: string): void => void complaints.push(message)
    const quiet = (): void => undefined
    const make = (): Sluice => {
      const made = new Sluice({
        store,
        tasks: [work, free],
        limits: [crm],
        logger: { debug: quiet, info: quiet, warn: quiet, error: log },
      })
      onTestFinished(() => made.stop({ within: 0 }))
      return made
    }
    const engine = make()
    return {
      engine,
      again: () => make().start(),
      free: () => engine.enqueue(free),
      ran,
      complaints,
      enqueue: async (key, options = {}) => (await engine.enqueue(work, key, options)).id,
      start: () => engine.start(),
      async stored(id) {
        const opened = await openExisting(store, systemClock)
        onTestFinished(() => opened.close())
        return opened.storedJobs([id])
      },
      async change(sql) {
        if (name === 'sqlite') {
          const file = new DatabaseSync(store.slice('sqlite:'.length))
          file.exec(sql)
          return file.close()
        }
        const client = new Client({ connectionString: store.replace(/[?&]schema=\w+/, '') })
        await client.connect()
        await client.query(`SET search_path = ${/schema=(\w+)/.exec(store)?.[1]}; ${sql}`)
        await client.end()
      },
    }
  }

  test('a job whose weights cannot be read is discarded with an event, and the others run', async () => {
    const { engine, ran, complaints, enqueue, change, start } = await set()
    const odd = await enqueue('acme', { weight: 2 })
    await enqueue('acme')
    await enqueue('other')
    await change(`UPDATE jobs SET weights = '[x' WHERE id = '${odd}'`)
    const discarded = record(engine, 'job.discarded')
    await start()
    await eventually(() => expect(ran.toSorted()).toEqual(['acme', 'other']))
    expect(discarded).toMatchObject([{ event: { id: odd, error: { code: 'job.unreadable' } } }])
    expect(await engine.jobs.get(odd)).toMatchObject({ state: 'discarded', error: { code: 'job.unreadable' } })
    expect(complaints.join()).toContain(odd)
    expect(await engine.jobs.list()).toHaveLength(3)
    expect((await engine.jobs.explain(odd)).words).toContain('discarded')
  })

  test('a job whose input, meta or tags cannot be read ends alone, and can be looked at', async () => {
    const { engine, ran, enqueue, change, start } = await set()
    const odd = await enqueue('acme')
    const tagged = await enqueue('tagged')
    await enqueue('other')
    await change(`UPDATE jobs SET input = '{' WHERE id = '${odd}'; UPDATE jobs SET extra = '{' WHERE id = '${tagged}'`)
    await start()
    await eventually(async () => expect((await engine.jobs.get(odd))?.state).toBe('discarded'))
    await eventually(() => expect(ran.toSorted()).toEqual(['other', 'tagged']))
    expect(await engine.jobs.get(odd)).toMatchObject({ attempt: 1, error: { code: 'job.unreadable' } })
    expect(await engine.jobs.list()).toHaveLength(3)
  })

  test('a budget with an unreadable state has nothing left, is reported, and fills again', async () => {
    const { engine, ran, complaints, enqueue, change, start } = await set()
    await start()
    await enqueue('acme')
    await eventually(() => expect(ran).toEqual(['acme']))
    const adjusted = record(engine, 'rate_limit.dynamic_adjusted')
    await change(`UPDATE buckets SET state = '[1,' WHERE key = 'acme'`)
    await enqueue('acme')
    await enqueue('other')
    await eventually(() => expect(ran.toSorted()).toEqual(['acme', 'acme', 'other']))
    expect(adjusted).toMatchObject([{ event: { limit: 'crm', key: 'acme', remaining: 0 } }])
    expect(complaints.join()).toContain('crm for acme')
    expect(await engine.limits.inspect('crm')).toHaveLength(2)
  })

  test('a limit with an unreadable definition holds its own jobs, and no others, until it is defined again', async () => {
    const { engine, ran, complaints, enqueue, change, start, again, free } = await set()
    await start()
    await enqueue('acme')
    await eventually(() => expect(ran).toEqual(['acme']))
    const generation = name === 'sqlite' ? 'value + 1' : '(value::bigint + 1)::text'
    await change(`UPDATE limits SET policy = '{'; UPDATE store SET value = ${generation} WHERE name = 'limits'`)
    const unknown = record(engine, 'rate_limit.unknown')
    const held = await enqueue('acme')
    await free()
    await eventually(() => expect(ran).toEqual(['acme', 'free']))
    await eventually(() => expect(unknown.length).toBe(1))
    expect(complaints.join()).toContain('limit crm')
    expect((await engine.jobs.get(held))?.state).toBe('available')
    expect(await engine.limits.list()).toMatchObject([{ name: 'crm', unreadable: true }])
    await again()
    await eventually(() => expect(ran).toEqual(['acme', 'free', 'acme']))
    expect(await engine.limits.list()).toMatchObject([{ name: 'crm' }])
  })

  test('an override that cannot be read lets nothing start until it is cleared', async () => {
    const { engine, ran, complaints, enqueue, change, start } = await set()
    await start()
    await engine.limits.override('crm', 'acme', { rate: 1 })
    const generation = name === 'sqlite' ? 'value + 1' : '(value::bigint + 1)::text'
    await change(`UPDATE overrides SET change = '{'; UPDATE store SET value = ${generation} WHERE name = 'limits'`)
    await enqueue('acme')
    await enqueue('other')
    await eventually(() => expect(ran).toEqual(['other']))
    await eventually(() => expect(complaints.join()).toContain('override crm for acme'))
    expect(await engine.limits.overrides('crm')).toHaveLength(1)
    await engine.limits.clearOverride('crm', 'acme')
    await eventually(() => expect(ran).toEqual(['other', 'acme']))
  })

  describe.each(
    name === 'sqlite' ? ['[x', '{}', 'null', '["a"]'] : ['[x', '{}', 'null', '[["crm"]]', '[["crm","a\\u0000b"]]'],
  )('a job whose limits read %s', (text) => {
    const CHANGES = {
      'to another queue': (engine: Sluice) => engine.jobs.moveMany({ task: 'work.item' }, { to: 'elsewhere' }),
      'to another priority': (engine: Sluice) => engine.jobs.reprioritizeMany({ task: 'work.item' }, { priority: 7 }),
    }
    const spoil = name === 'sqlite' ? `UPDATE lanes SET buckets = '${text}'` : `UPDATE jobs SET uses = '${text}'`

    test.each(Object.entries(CHANGES))('moves with those of its lane %s', async (_, move) => {
      const { engine, enqueue, change } = await set()
      const odd = await enqueue('acme')
      await engine.jobs.explain(odd)
      await change(spoil)
      await move(engine)
      expect(await engine.jobs.explain(odd)).toMatchObject({ limits: [{ limit: 'crm', key: 'acme' }] })
    })

    test.each(Object.entries(CHANGES))('is set aside instead of moved without any %s', async (_, move) => {
      const { engine, enqueue, change } = await set()
      // The name of its lane is a hash.
      const odd = await enqueue('acme'.repeat(100))
      await change(spoil)
      await move(engine)
      expect(await engine.jobs.get(odd)).toMatchObject({ state: 'discarded', error: { code: 'job.unreadable' } })
    })

    test('is left out of an export', async () => {
      const { enqueue, change, stored } = await set()
      const odd = await enqueue('acme'.repeat(100))
      expect(await stored(odd)).toMatchObject([{ uses: [{ limit: 'crm' }] }])
      await change(spoil)
      expect(await stored(odd)).toEqual([null])
    })
  })

  test('a job whose weights cannot be read is left out of an export', async () => {
    const { enqueue, change, stored } = await set()
    const odd = await enqueue('acme', { weight: 2 })
    expect(await stored(odd)).toMatchObject([{ uses: [{ weight: 2 }] }])
    await change(`UPDATE jobs SET weights = '[x' WHERE id = '${odd}'`)
    expect(await stored(odd)).toEqual([null])
  })

  test.runIf(name === 'sqlite')('a number that no reader can take sets its job aside', async () => {
    const { engine, ran, enqueue, change, start } = await set()
    const odd = await enqueue('acme', { delay: '1h' })
    await enqueue('other')
    await change(`UPDATE jobs SET expires = 8640000000000000000, due = 8640000000000000000 WHERE id = '${odd}'`)
    await start()
    await eventually(() => expect(ran).toEqual(['other']))
    expect(await engine.jobs.get(odd)).toMatchObject({ state: 'discarded', error: { code: 'job.unreadable' } })
  })

  test.runIf(name === 'postgres')(
    'a key that the server cannot read sets its job aside, whatever else waits',
    async () => {
      const { engine, ran, enqueue, change, start } = await set()
      await start()
      const odd = await enqueue('first')
      await eventually(() => expect(ran).toEqual(['first']))
      for (const key of ['a\\u0000b', 'a\\ud800']) {
        const discarded = record(engine, 'job.discarded')
        await change(`WITH odd AS (INSERT INTO jobs (id, task, queue, state, lane, priority, max_attempts, created, since, uses, input)
          SELECT gen_random_uuid(), task, queue, 1, lane || 'x', priority, max_attempts, created, since, '[["crm","${key}"]]', input FROM jobs WHERE id = '${odd}' RETURNING queue, lane, uses)
        INSERT INTO arrivals (queue, lane, uses, look) SELECT queue, lane, uses, false FROM odd`)
        await enqueue('acme')
        await eventually(() => expect(discarded).toHaveLength(1))
        await eventually(() => expect(ran.at(-1)).toBe('acme'))
        ran.splice(1)
        expect((await engine.jobs.list({ states: ['discarded'] }))[0]).toMatchObject({
          error: { code: 'job.unreadable' },
        })
      }
    },
  )
})
