// The price of waiting jobs for those that do not wait: 1,000,000 jobs of 100,000 keys wait for a year, beside an empty store.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { input, limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { sluicePostgres, sluiceSqlite } from './engines/sluice.ts'
import { statement } from './engines/schema.ts'
import { type Budget, nowUs, type Setting } from './engine.ts'
import type { Measure, Numbers } from './measurements.ts'
import { LANE } from '../../src/store/shared/state.ts'

interface Stamped {
  readonly key: string
  readonly atUs?: number
  readonly text?: string
}

const WAITING = 1_000_000
const KEYS = 100_000
const AT_ONCE = 5000
const BUSY_JOBS = 20_000
const PROBES = 600
const NEVER: Budget = { kind: 'never', perSecond: 1_000_000 }
const LOOK_EVERY_MS = 500
const PATIENCE_US = 300e6

/** @param waits false: the empty store, for comparison */
export function backlog(store: 'sqlite' | 'postgres', waits: boolean): Measure {
  return async ({ servers: { postgres, redis, folder }, scale }) => {
    const setting: Setting = {
      postgres,
      redis,
      folder,
      profile: 'ordinary',
      space: `compare_backlog_${process.pid}`,
      concurrency: 100,
      budget: NEVER,
    }
    const kept = store === 'sqlite' ? sluiceSqlite : sluicePostgres
    const books = store === 'sqlite' ? new SqliteBooks(setting) : new PostgresBooks(setting)
    await kept.erase(setting)
    try {
      return await measureIn(books, waits ? Math.round(WAITING * scale) : 0, Math.round(KEYS * scale))
    } finally {
      await kept.erase(setting)
    }
  }
}

async function measureIn(books: Books, waiting: number, keys: number): Promise<Numbers> {
  const waitsMs: number[] = []
  let [ran, lastUs] = [0, 0]
  const never = limit('never', { rate: NEVER.perSecond, per: '1s' })
  const job = task('job', input<Stamped>(), {
    limits: [never.by(({ key }) => key)],
    run({ atUs }) {
      ran++
      lastUs = nowUs()
      if (atUs !== undefined) waitsMs.push((lastUs - atUs) / 1000)
    },
  })
  const yearly = limit('yearly', { rate: 1, per: 'P365D', startEmpty: true })
  const parked = task('parked', input<Stamped>(), { limits: [yearly.by(({ key }) => key)], run() {} })
  const engine = new Sluice({
    store: books.store,
    tasks: [job, parked],
    queues: { default: { concurrency: 100 } },
    logger: silentLogger,
  })
  const numbers: Record<string, number> = {}
  try {
    await job.enqueue({ key: 'first' }, { delay: '365d' })
    const before = await books.bytes()
    for (let n = 0; n < waiting; n += AT_ONCE)
      await parked.enqueueMany(
        Array.from({ length: Math.min(AT_ONCE, waiting - n) }, (_, i) => ({
          key: `p${(n + i) % keys}`,
          text: 'x'.repeat(60),
        })),
      )
    const startUs = nowUs()
    await engine.start()
    while (waiting > 0 && (await books.lanesWaiting()) < keys && nowUs() < startUs + PATIENCE_US)
      await sleep(LOOK_EVERY_MS)
    if (waiting > 0) {
      numbers['taken in s'] = (nowUs() - startUs) / 1e6
      numbers['bytes a job'] = ((await books.bytes()) - before) / waiting
    }
    for (let n = 0; n < PROBES; n++) {
      void job.enqueue({ key: `fresh${n}`, atUs: nowUs() })
      await sleep(10)
    }
    await sleep(1000)
    const sorted = waitsMs.slice(50).sort((a, b) => a - b)
    numbers['fresh p50 ms'] = sorted[Math.floor(sorted.length * 0.5)] ?? NaN
    numbers['fresh p99 ms'] = sorted[Math.floor(sorted.length * 0.99)] ?? NaN
    ran = 0
    const busyUs = nowUs()
    const calls: Promise<unknown>[] = []
    for (let n = 0; n < BUSY_JOBS; n += 1000)
      calls.push(job.enqueueMany(Array.from({ length: 1000 }, (_, i) => ({ key: `d${(n + i) % 100}` }))))
    await Promise.all(calls)
    while (ran < BUSY_JOBS && nowUs() < busyUs + 60e6) await sleep(20)
    numbers['busy jobs/s'] = ran / ((lastUs - busyUs) / 1e6)
  } finally {
    await engine.stop({ within: '1s' })
    books.close()
  }
  return numbers
}

/** Figures from a store's own tables. */
interface Books {
  readonly store: string
  bytes(): Promise<number>
  lanesWaiting(): Promise<number>
  close(): void
}

class SqliteBooks implements Books {
  readonly store: string
  readonly #file: string
  #db: DatabaseSync | null = null

  constructor({ folder, space }: Setting) {
    this.#file = join(folder, `${space}.db`)
    this.store = `sqlite:${this.#file}`
  }

  bytes(): Promise<number> {
    const size = (end: string): number => statSync(this.#file + end, { throwIfNoEntry: false })?.size ?? 0
    return Promise.resolve(size('') + size('-wal'))
  }

  lanesWaiting(): Promise<number> {
    this.#db ??= new DatabaseSync(this.#file, { readOnly: true })
    const row = this.#db.prepare('SELECT count(*) AS n FROM lanes WHERE state = ?').get(LANE.waiting) as { n: number }
    return Promise.resolve(row.n)
  }

  close(): void {
    this.#db?.close()
  }
}

class PostgresBooks implements Books {
  readonly store: string
  readonly #setting: Setting

  constructor(setting: Setting) {
    this.#setting = setting
    const url = new URL(setting.postgres)
    url.searchParams.set('schema', setting.space)
    this.store = url.toString()
  }

  async bytes(): Promise<number> {
    return this.#number(`SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) AS n FROM pg_class c
      JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = '${this.#setting.space}' AND c.relkind = 'r'`)
  }

  async lanesWaiting(): Promise<number> {
    return this.#number(`SELECT count(*) AS n FROM "${this.#setting.space}".lanes WHERE state = ${LANE.waiting}`)
  }

  close(): void {}

  async #number(sql: string): Promise<number> {
    const [row] = await statement(this.#setting.postgres, sql)
    return Number(row?.['n'])
  }
}
