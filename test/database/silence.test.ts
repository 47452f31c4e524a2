// A network that forgets connections without a word to either end.
import { expect, onTestFinished, test } from 'vitest'
import { wasLost } from '../../src/database/postgres-error.ts'
import { PostgresDatabase } from '../../src/database/postgres.ts'
import { PostgresProxy } from '../postgres-proxy.ts'
import { POSTGRES_URL } from '../store/postgres-backend.ts'
import { withPostgres } from '../store/postgres-server.ts'

/** Longer than silence is borne for, and much shorter than the system takes to give a connection up. */
const SOON_MS = 15_000

async function behindProxy(connections: number): Promise<{ proxy: PostgresProxy; db: PostgresDatabase }> {
  const proxy = await PostgresProxy.before(POSTGRES_URL)
  const db = new PostgresDatabase({ source: proxy.url, connections, schema: 'sluice' })
  onTestFinished(() => db.close(true))
  return { proxy, db }
}

/** The outcome, or the fact that there was none in time. */
function soon<T>(work: Promise<T>): Promise<T> {
  return Promise.race([
    work,
    new Promise<never>((_, reject) => setTimeout(() => reject(new Error('nothing came')), SOON_MS)),
  ])
}

const sleepFor = (db: PostgresDatabase, seconds: number): Promise<(readonly unknown[])[]> =>
  db.all('SELECT pg_sleep($1::float8)', seconds)

withPostgres('a network that forgets connections', () => {
  test('a call whose connection fell silent fails as lost; those that idled with it are not used', async () => {
    const { proxy, db } = await behindProxy(3)
    await Promise.all([sleepFor(db, 0.1), sleepFor(db, 0.1), sleepFor(db, 0.1)])
    expect(proxy.silence()).toBe(3)
    expect(wasLost(await soon(db.all('SELECT 1').catch((error: unknown) => error)))).toBe(true)
    // Else each of the other two would cost as much time as the first.
    const made = proxy.made
    expect(await soon(Promise.all([db.all('SELECT 1'), db.all('SELECT 2'), db.all('SELECT 3')]))).toEqual([
      [[1]],
      [[2]],
      [[3]],
    ])
    expect(proxy.made - made).toBe(3)
  })

  test('a call whose answer is lost fails as lost', async () => {
    const { proxy, db } = await behindProxy(1)
    const call = sleepFor(db, 0.5).catch((error: unknown) => error)
    await expect.poll(() => proxy.links.size).toBe(1)
    await new Promise((resolve) => setTimeout(resolve, 250))
    proxy.silence()
    expect(wasLost(await soon(call))).toBe(true)
  })

  test('a statement that the server is at work on is waited for, however silent', async () => {
    const { db } = await behindProxy(2)
    expect(await Promise.all([sleepFor(db, 5), sleepFor(db, 3)])).toHaveLength(2)
  })

  test('a server that takes connections and never answers counts as away', async () => {
    const { proxy, db } = await behindProxy(2)
    proxy.swallows = true
    expect(wasLost(await soon(db.all('SELECT 1').catch((error: unknown) => error)))).toBe(true)
    proxy.swallows = false
    expect(await soon(db.all('SELECT 1'))).toEqual([[1]])
  })

  test('a close that does not wait ends calls on their way, and needs no network', async () => {
    const { proxy, db } = await behindProxy(2)
    await db.all('SELECT 1')
    const calls = [sleepFor(db, 30), sleepFor(db, 30), sleepFor(db, 30)].map((each) =>
      each.catch((error: unknown) => error),
    )
    await expect.poll(() => proxy.links.size).toBe(2)
    proxy.silence()
    const beganMs = performance.now()
    await db.close(true)
    for (const call of calls) expect(await call).toBeInstanceOf(Error)
    expect(performance.now() - beganMs).toBeLessThan(SOON_MS)
  })
})
