// Stores that do not answer: a network that is silent, a file that another process keeps locked.
import { DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, test } from 'vitest'
import { input, type Logger, Sluice, type SluiceOptions, task } from '../../src/exports/index.ts'
import { PostgresProxy } from '../postgres-proxy.ts'
import { onPostgres, onSqlite, type StoreKind } from '../stores.ts'

/** A store that falls silent when it is told to, and answers again. */
interface Silent {
  readonly url: string
  readonly fallSilent: () => void
  readonly answerAgain: () => void
}

async function silent(kind: StoreKind): Promise<Silent> {
  const url = kind.create()
  if (kind.name === 'sqlite') {
    const other = { db: null as DatabaseSync | null }
    const answerAgain = (): void => {
      other.db?.close()
      other.db = null
    }
    onTestFinished(answerAgain)
    return {
      url,
      fallSilent: () => (other.db = new DatabaseSync(url.slice('sqlite:'.length))).exec('BEGIN IMMEDIATE'),
      answerAgain,
    }
  }
  const proxy = await PostgresProxy.before(url)
  return {
    url: proxy.url,
    fallSilent: () => {
      proxy.swallows = true
      proxy.silence()
    },
    answerAgain: () => (proxy.swallows = false),
  }
}

const postgres = await onPostgres('engines whose network falls silent')
const KINDS = postgres ? [onSqlite, postgres] : [onSqlite]

function engineOn(options: SluiceOptions): { engine: Sluice; told: string[] } {
  const told: string[] = []
  const tell: Logger['warn'] = (_, message) => void told.push(message)
  const logger = { debug: () => undefined, info: () => undefined, warn: tell, error: tell }
  return { engine: new Sluice({ logger, ...options }), told }
}

test.each(KINDS)(
  'a stop ends although the store does not answer, and the job runs elsewhere later ($name)',
  async (kind) => {
    const store = await silent(kind)
    let mayEnd = (): void => undefined
    const ends = new Promise<void>((resolve) => (mayEnd = resolve))
    const work = () => task('work', input<number>(), { run: () => ends })
    const mine = work()
    const { engine, told } = engineOn({ store: store.url, tasks: [mine], lease: '10s' })
    const started = new Promise((resolve) => engine.on('job.started', resolve))
    await engine.start()
    const job = await mine.enqueue(7)
    await started
    store.fallSilent()
    mayEnd()
    // It ends while the store is silent: nothing else would let it.
    await engine.stop({ within: 500 })
    expect(told.some((message) => message.includes('stopped without it'))).toBe(true)
    store.answerAgain()

    const theirs = work()
    const { engine: other } = engineOn({ store: store.url, tasks: [theirs] })
    onTestFinished(() => other.stop({ within: 0 }))
    await other.start()
    await expect
      .poll(async () => (await other.jobs.get(job.id))?.state, { timeout: 60_000, interval: 200 })
      .toBe('completed')
  },
)

test.each(KINDS)('work goes on once a store that was silent answers again ($name)', async (kind) => {
  const store = await silent(kind)
  const ran: number[] = []
  const work = task('work', input<number>(), { run: (n) => void ran.push(n) })
  const { engine } = engineOn({ store: store.url, tasks: [work] })
  onTestFinished(() => engine.stop({ within: 0 }))
  await engine.start()
  await work.enqueue(1)
  await expect.poll(() => ran).toEqual([1])
  store.fallSilent()
  const later = work.enqueue(2)
  await new Promise((resolve) => setTimeout(resolve, 1000))
  store.answerAgain()
  await later
  await expect.poll(() => ran).toEqual([1, 2])
})

test('a claim that takes over 5 s is reported while it waits', async () => {
  const store = await silent(onSqlite)
  const work = task('work', { run: () => undefined })
  const { engine, told } = engineOn({ store: store.url, tasks: [work] })
  onTestFinished(() => engine.stop({ within: 0 }))
  await engine.start()
  store.fallSilent()
  const long = (): string[] => told.filter((message) => message.startsWith('a claim takes '))
  await expect.poll(long, { timeout: 30_000 }).toHaveLength(1)
  store.answerAgain()
  await (await work.enqueue()).result()
  expect(long()).toHaveLength(1)
})
