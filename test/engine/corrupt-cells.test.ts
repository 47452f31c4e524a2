// Any one text that a store keeps may have become unreadable: a version before this one wrote it, or other hands did. The other jobs run.
import { DatabaseSync } from 'node:sqlite'
import { Client } from 'pg'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { call, input, limit, type LimitUse, Sluice, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'

const eventually = (check: () => unknown): Promise<unknown> => vi.waitFor(check, { timeout: 60_000 })

/** The texts that stores read, by table; what is handed through or only shown is among them where a statement reads it too. */
const BOTH = {
  jobs: ['weights', 'error', 'extra', 'plan', 'input'],
  buckets: ['state'],
  queues: ['bounds', 'limits'],
  limits: ['policy'],
  overrides: ['change'],
  schedules: ['spec'],
  store: ['value'],
}
const SQLITE = { ...BOTH, jobs: [...BOTH.jobs, 'permits', 'errors'], lanes: ['buckets'], workers: ['queues', 'tasks'] }
const POSTGRES = { ...BOTH, jobs: [...BOTH.jobs, 'uses'] }

const crm = limit('crm', { rate: 1000, per: '1s' })
const few = limit('few', { concurrency: 50 })
const own = limit('own', { concurrency: 40 })
const one = limit('one', { concurrency: 1 })

describe.each(await everyStore('cells that cannot be read'))('on $name', ({ name, create }) => {
  interface Set {
    readonly ran: string[]
    readonly complaints: string[]
    /** Lets all runs go on that were held. */
    readonly open: () => void
    readonly held: () => number
    readonly limited: ReturnType<typeof work>
    readonly free: ReturnType<typeof work>
    readonly single: ReturnType<typeof work>
    /** An engine whose queue has these limits; undefined: it says nothing of them. */
    readonly engine: (limits?: readonly LimitUse<never>[]) => Sluice
    /** Runs a statement as other hands would; answers how many rows it changed. */
    readonly change: (sql: string) => Promise<number>
  }

  function work(id: string, limits: readonly LimitUse<string>[], run: (item: string) => Promise<void>) {
    return task(id, input<string>(), { queue: 'a', limits, retry: { attempts: 3, backoff: 'none' }, run })
  }

  function set(): Set {
    const store = create()
    const ran: string[] = []
    const complaints: string[] = []
    const waiting: (() => void)[] = []
    const run = async (item: string): Promise<void> => {
      if (item.startsWith('held')) await new Promise<void>((done) => waiting.push(done))
      if (item === 'fails') throw new Error('on purpose')
      ran.push(item)
    }
    const limited = work('limited', [crm.by((item: string) => item), few], run)
    const free = work('free', [], run)
    const single = work('single', [one], run)
    const quiet = (): void => undefined
    return {
      ran,
      complaints,
      limited,
      free,
      single,
      held: () => waiting.length,
      open: () => waiting.splice(0).forEach((go) => go()),
      engine(limits) {
        const made = new Sluice({
          store,
          tasks: [limited, free, single],
          limits: [crm, few, own, one],
          queues: { a: { concurrency: 20, ...(limits && { limits }) } },
          ageing: '1m',
          logger: { debug: quiet, info: quiet, warn: quiet, error: (_, message) => void complaints.push(message) },
        })
        onTestFinished(() => made.stop({ within: 0 }))
        return made
      },
      async change(sql) {
        if (name === 'sqlite') {
          const file = new DatabaseSync(store.slice('sqlite:'.length))
          const { changes } = file.prepare(sql).run()
          file.close()
          return Number(changes)
        }
        const client = new Client({ connectionString: store.replace(/[?&]schema=\w+/, '') })
        await client.connect()
        await client.query(`SET search_path = ${/schema=(\w+)/.exec(store)?.[1]}`)
        const { rowCount } = await client.query(sql)
        await client.end()
        return rowCount ?? 0
      },
    }
  }

  const cells = Object.entries(name === 'sqlite' ? SQLITE : POSTGRES).flatMap(([table, columns]) =>
    columns.map((column) => [table, column] as const),
  )

  test.each(cells)('with any value in %s.%s the other jobs run', async (table, column) => {
    const { ran, complaints, limited, free, held, open, engine: make, change } = set()
    const engine = make([own])
    await engine.start()
    await engine.limits.override('crm', 'nobody', { rate: 1 })
    await engine.enqueue(limited, 'held1', { weight: 2 })
    await engine.enqueue(limited, 'held2')
    await engine.enqueue(free, 'held3', { meta: { a: 1 } })
    await engine.enqueue(free, 'fails')
    await engine.enqueue(limited, 'later', { delay: '300ms', weight: 2 })
    await engine.schedule(free, 'scheduled', { name: 'every second', every: '1s' })
    await engine.flows.start({ kind: 'chain', steps: [call(limited, 'held4'), call(limited, 'then')] })
    await eventually(() => expect(held()).toBe(4))
    const which = table === 'store' ? `name = 'ageing'` : `${column} IS NOT NULL`
    await change(`UPDATE ${table} SET ${column} = '[x' WHERE ${which}`)
    open()
    for (const n of [1, 2, 3]) {
      await engine.enqueue(free, `free${n}`)
      await engine.enqueue(limited, `key${n}`, { weight: 2 })
    }
    const others = ['free1', 'free2', 'free3', 'key1', 'key2', 'key3', 'held1', 'held2', 'held3', 'held4']
    await eventually(() => expect(ran).toEqual(expect.arrayContaining(others)))
    if (table === 'schedules') await eventually(() => expect(complaints.join()).toContain('schedule every second'))
    await engine.enqueue(free, 'late')
    await eventually(() => expect(ran).toContain('late'))
    expect((await engine.jobs.list()).length).toBeGreaterThan(10)
    expect(await engine.limits.list()).toHaveLength(4)
    expect((await engine.limits.inspect('crm')).length).toBeGreaterThan(2)
    await engine.schedules.list()
  })

  test('a run whose permits or limits cannot be read gives its permits back, once', async () => {
    const { ran, single, held, open, engine: make, change } = set()
    const engine = make()
    await engine.start()
    await engine.enqueue(single, 'held1')
    await eventually(() => expect(held()).toBe(1))
    await change(`UPDATE jobs SET ${name === 'sqlite' ? 'permits' : 'uses'} = '{' WHERE state = 2`)
    await engine.enqueue(single, 'held2')
    await engine.enqueue(single, 'held3')
    open()
    await eventually(() => expect(held()).toBe(1))
    expect(ran).toEqual(['held1'])
    expect((await engine.limits.inspect('one'))[0]).toMatchObject({ active: 1, available: 0 })
    open()
    await eventually(() => expect(held()).toBe(1))
    open()
    await eventually(() => expect(ran).toEqual(['held1', 'held2', 'held3']))
  })

  test('a schedule that cannot be read keeps no engine from opening the store, whatever the clock did', async () => {
    const { ran, free, engine: make, change } = set()
    const engine = make()
    await engine.start()
    await engine.schedule(free, 'scheduled', { name: 'hourly', every: '1h' })
    await engine.stop()
    await change(`UPDATE schedules SET spec = '{'`)
    const [clock, earlier] =
      name === 'sqlite'
        ? ['boot', `json_set(value, '$[0]', 'another boot')`]
        : ['clock', `(value::bigint + 36000000000)::text`]
    expect(await change(`UPDATE store SET value = ${earlier} WHERE name = '${clock}'`)).toBe(1)
    const other = make()
    await other.start()
    await other.enqueue(free, 'free')
    await eventually(() => expect(ran).toContain('free'))
    await other.schedule(free, 'scheduled', { name: 'hourly', every: '1h', immediately: true })
    await eventually(() => expect(ran).toContain('scheduled'))
  })

  test('limits of a queue that cannot be read hold it until an engine lists them again, and no other queue', async () => {
    const { ran, complaints, free, engine: make, change } = set()
    const declaring = make([own])
    await declaring.start()
    await declaring.stop()
    await change(`UPDATE queues SET limits = '{' WHERE limits <> '[]'`)
    const engine = make()
    await engine.start()
    await engine.enqueue(free, 'waits')
    await eventually(() => expect(complaints.join()).toContain('queue a'))
    expect(ran).toEqual([])
    await make([own]).start()
    await eventually(() => expect(ran).toEqual(['waits']))
  })

  test.runIf(name === 'sqlite')(
    'a lane named by a hash loses its jobs alone: the same limits have a new one',
    async () => {
      const { ran, limited, engine: make, change } = set()
      const engine = make()
      const key = 'k'.repeat(100)
      const lost = await engine.enqueue(limited, key)
      await change(`UPDATE lanes SET buckets = '{'`)
      await engine.start()
      await eventually(async () => expect((await engine.jobs.get(lost.id))?.state).toBe('discarded'))
      await engine.enqueue(limited, key)
      await eventually(() => expect(ran).toEqual([key]))
    },
  )
})
