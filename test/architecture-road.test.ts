// ARCHITECTURE.md follows one job from file to file. Here one job is run on each store, and the files on the call stack at
// the stations of its road are compared with the document's tables.
import { globSync, readFileSync } from 'node:fs'
import { StatementSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { limit, Sluice, task } from '../src/exports/index.ts'
import { TurnOrder } from '../src/policy/admission/turn-order.ts'
import { PostgresStore } from '../src/store/postgres/postgres-store.ts'
import { SqliteStore } from '../src/store/sqlite/sqlite-store.ts'
import { everyStore, type StoreKind } from './stores.ts'

const SRC = fileURLToPath(new URL('../src/', import.meta.url))
const ARCHITECTURE = readFileSync(new URL('../ARCHITECTURE.md', import.meta.url), 'utf8')
const AT_MOST = { sqlite: 12, postgres: 16 }
/** A row tells lines in tens; so many may come and go before it has to be written again. */
const LINES_OFF = 20

/** Statements that write a job's row. */
const WRITES = /\b(?:INSERT INTO|UPDATE(?: OR FAIL)?) jobs\b|\b(insert_jobs|claim_write|settle|complete)\(/
/** They only try a call again. */
const RETRIES = /\/(unreadable-rows|retry-connection)\.ts$/

interface Row {
  readonly file: string
  readonly lines: number
}

/** The rows of the table behind a heading. */
function tableOf(heading: string): Row[] {
  const [, section = ''] = ARCHITECTURE.split(`\n### ${heading}\n`)
  const rows = (section.split(/\n##+ /)[0] ?? '').matchAll(/^\| *\d+ *\| `([^`]+)` .*\| *(\d+) *\|$/gm)
  return [...rows].map(([, file = '', lines]) => ({ file, lines: Number(lines) }))
}

const TABLES = { sqlite: tableOf('On SQLite'), postgres: tableOf('On PostgreSQL') }

function sqlFileOf(name: string): string {
  const files = globSync('store/postgres/sql/functions/*.sql', { cwd: SRC })
  return files.find((file) => readFileSync(SRC + file, 'utf8').includes(`FUNCTION sluice.${name}(`)) ?? name
}

/** The files on the call stack at each station. */
class Road {
  readonly files = new Set<string>()
  readonly stations = new Set<string>()
  #isOpen = false

  open(): void {
    this.#isOpen = true
  }

  station(name: string): void {
    if (!this.#isOpen) return
    this.stations.add(name)
    const { stack = '' } = new Error(name)
    // A wakeup or a notification leads from one job to the claim of the next: the road of this one is below it.
    const frames = stack.split(/\n(?=.*\/(?:events\/wakeup|postgres\/watch)\.ts)/)[0] ?? ''
    for (const [, file = ''] of frames.matchAll(/\/src\/((?:engine|policy|store)\/[\w./-]+\.ts)/g))
      if (!RETRIES.test(file)) this.files.add(file)
  }

  statement(sql: string): void {
    const [isWrite, called] = WRITES.exec(sql) ?? []
    if (!this.#isOpen || isWrite === undefined) return
    this.station('a write')
    if (called !== undefined) this.files.add(sqlFileOf(called))
  }
}

function before(owner: object, method: string, work: (self: unknown, args: readonly unknown[]) => void): void {
  const original = Reflect.get(owner, method) as (...args: unknown[]) => unknown
  const spy = vi.spyOn(owner as Record<string, (...args: unknown[]) => unknown>, method)
  spy.mockImplementation(function (this: unknown, ...args: unknown[]) {
    work(this, args)
    return original.apply(this, args)
  })
  onTestFinished(() => spy.mockRestore())
}

function textOf(query: unknown): string {
  if (typeof query === 'string') return query
  return (query as { text?: string } | undefined)?.text ?? ''
}

function watchStores(road: Road): void {
  for (const method of ['run', 'all', 'get'])
    before(StatementSync.prototype, method, (statement) => road.statement((statement as StatementSync).sourceSQL))
  before(Client.prototype, 'query', (_, [query]) => road.statement(textOf(query)))
  for (const { prototype } of [SqliteStore, PostgresStore])
    for (const verb of ['enqueue', 'claim', 'settle']) before(prototype, verb, () => road.station(verb))
  // The decision takes the lane of a granted job from the order.
  before(TurnOrder.prototype, 'pop', () => road.station('grant'))
}

/** Runs one job beside a first one, which has opened and read what later ones find. */
async function roadOf(kind: StoreKind): Promise<Road> {
  const road = new Road()
  const stackTraceLimit = Error.stackTraceLimit
  Error.stackTraceLimit = 100
  onTestFinished(() => void (Error.stackTraceLimit = stackTraceLimit))
  watchStores(road)
  const calls = limit('calls', { window: 'sliding', max: 9, per: '1m' })
  let reported = Promise.withResolvers<void>()
  const validate = (value: unknown): { value: { tenant: string } } => {
    road.station('check')
    return { value: value as { tenant: string } }
  }
  const sync = task(
    'sync',
    { '~standard': { version: 1, vendor: 'test', validate } },
    {
      limits: [calls.by('tenant')],
      run: () => {
        road.station('call')
        return { toJSON: () => road.station('outcome') ?? 'done' }
      },
      onCompleted: () => {
        road.station('report')
        reported.resolve()
      },
    },
  )
  const sluice = new Sluice({ store: kind.create(), tasks: [sync] })
  await sluice.start()
  await sync.enqueue({ tenant: 'acme' })
  await reported.promise
  reported = Promise.withResolvers()
  road.open()
  await sync.enqueue({ tenant: 'acme' })
  await reported.promise
  await sluice.stop()
  return road
}

describe.each(await everyStore('the road of one job'))('the road of one job on $name', (kind) => {
  const table = TABLES[kind.name]

  test('has the files that ARCHITECTURE.md tells', async () => {
    const road = await roadOf(kind)
    expect([...road.stations].toSorted()).toEqual(
      ['a write', 'call', 'check', 'claim', 'enqueue', 'grant', 'outcome', 'report', 'settle'].toSorted(),
    )
    expect([...road.files].toSorted()).toEqual(table.map(({ file }) => file).toSorted())
    expect(table.length).toBeLessThanOrEqual(AT_MOST[kind.name])
  })

  test.each(table)('$file has about $lines lines', ({ file, lines }) => {
    const actual = readFileSync(SRC + file, 'utf8').split('\n').length - 1
    expect(Math.abs(actual - lines), `${file} has ${actual} lines`).toBeLessThanOrEqual(LINES_OFF)
  })
})
