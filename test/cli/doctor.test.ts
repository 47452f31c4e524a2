import { Client } from 'pg'
import { describe, expect, test } from 'vitest'
import { type Facts, type Finding, findingsOf } from '../../src/cli/doctor/findings.ts'
import { classOf } from '../../src/jobs/tally.ts'
import { limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { folder, sluice, start } from './terminal.ts'

const kinds = await everyStore('sluice doctor')
const MIB = 1_048_576

const WELL: Facts = {
  schema: { stored: 26, known: 26 },
  diagnosis: {
    database: 'PostgreSQL 17.2',
    clockOffsetMs: 3,
    roundTripMs: 1,
    bytes: 10 * MIB,
    freeBytes: 0,
    logBytes: 64 * MIB,
    tables: [{ name: 'jobs', live: 10, dead: 9999 }],
    transactions: [{ pid: 7, seconds: 59, state: 'active', application: 'x' }],
    blocked: [{ pid: 8, seconds: 4, by: [7] }],
  },
  queues: [],
  claims: { c: 100, r: { [classOf(20)]: 100 } },
  throttled: [{ queue: 'q', limit: 'crm', key: '', waiting: 4, nextStartUs: null }],
  limits: ['crm'],
  unreadable: [],
}

function queue(name: string, available: number, workers: number, paused = false): Facts['queues'][number] {
  const none = { scheduled: 0, active: 0, completed: 0, retryable: 0, discarded: 0, cancelled: 0, pending: 0 }
  return { name, paused, workers, bound: null, createdAt: null, jobs: { ...none, available } }
}

const bad = (facts: Facts): Finding[] => findingsOf(facts).filter(({ severity }) => severity !== 'ok')
const of = (diagnosis: Partial<Facts['diagnosis']>): Facts => ({
  ...WELL,
  diagnosis: { ...WELL.diagnosis, ...diagnosis },
})

describe('the findings', () => {
  test('are good in a store that is well, one for each check', () => {
    expect(bad(WELL)).toEqual([])
    const checks = findingsOf(WELL).map(({ check }) => check)
    expect(new Set(checks).size).toBe(checks.length)
  })

  test.each<[string, Facts, string]>([
    ['schema', { ...WELL, schema: { stored: 27, known: 26 } }, 'Update this Sluice'],
    ['schema', { ...WELL, schema: { stored: 25, known: 26 } }, 'sluice migrate'],
    ['database', of({ bytes: 200 * MIB, freeBytes: 120 * MIB }), 'VACUUM'],
    ['clock', of({ clockOffsetMs: -1200 }), 'NTP'],
    ['claims', { ...WELL, claims: { c: 100, r: { [classOf(2000)]: 100 } } }, 'slow disk'],
    ['claims', { ...WELL, claims: { c: 9, f: 1, r: {} } }, 'logs of the engines'],
    ['dead rows', of({ tables: [{ name: 'jobs', live: 10_000, dead: 10_001 }] }), 'autovacuum'],
    ['transactions', of({ transactions: [{ pid: 7, seconds: 61, state: 'idle', application: '' }] }), 'backend(7)'],
    ['locks', of({ blocked: [{ pid: 8, seconds: 6, by: [7] }] }), 'pg_stat_activity'],
    ['log', of({ logBytes: 20_000 * MIB }), 'replication slots'],
    ['log', of({ database: 'SQLite 3.50', logBytes: 64 * MIB }), 'hold the file open'],
    ['queues', { ...WELL, queues: [queue('mail', 3, 0), queue('a', 3, 1), queue('b', 3, 0, true)] }, '--queue mail'],
    ['limits', { ...WELL, limits: [] }, 'defines it'],
    ['limits', { ...WELL, unreadable: ['the limit x'] }, 'defines it'],
  ])('name trouble with the %s, and what to do', (check, facts, words) => {
    const [found, ...more] = bad(facts)
    expect([found?.check, more]).toEqual([check, []])
    expect(found?.action).toContain(words)
  })
})

async function filled(url: string): Promise<void> {
  const work = task('work', { queue: 'mail', limits: [limit('crm', { rate: 1, per: '1h' })], run: () => undefined })
  const engine = new Sluice({ store: url, tasks: [work], logger: silentLogger })
  await work.enqueueMany([undefined, undefined, undefined])
  await engine.stop()
}

describe.each(kinds)('on $name', ({ name, create }) => {
  test('sluice doctor finds a queue that no worker serves, and says what to do; top shows it', async () => {
    const url = create()
    await filled(url)
    const { code, out, err } = await sluice(['doctor', '--store', url])
    expect({ code, err }).toEqual({ code: 1, err: '' })
    expect(out).toMatch(/^error +queues +no live worker serves mail, where 3 jobs wait\n +→ Start a worker/m)
    expect(out).toMatch(/^ok +schema +version \d+/m)
    expect(out).toMatch(name === 'sqlite' ? /^ok +database +SQLite 3/m : /^ok +database +PostgreSQL \d/m)
    const json = await sluice(['doctor', '--json', '--store', url])
    const { facts } = JSON.parse(json.out) as { facts: Facts }
    expect(facts.diagnosis.bytes).toBeGreaterThan(10_000)
    expect(Math.abs(facts.diagnosis.clockOffsetMs)).toBeLessThan(1000 + facts.diagnosis.roundTripMs)
    const top = await sluice(['top', '--once', '--store', url])
    expect(top).toMatchObject({ code: 0, err: '' })
    expect(top.out).toMatch(/^3 waiting, 0 running, 0 later, 0 failed; 0 workers with 0 jobs$/m)
    expect(top.out).toMatch(/^mail +3 +0 +0 +0 +0$/m)
    expect(top.out).toMatch(/^limit +waiting +keys held +next start +running$/m)
  })
})

test('sluice doctor sees a long transaction and who waits for its lock', async () => {
  const postgres = kinds.find(({ name }) => name === 'postgres')
  if (!postgres) return
  const url = postgres.create()
  await filled(url)
  const { PostgresStore } = await import('../../src/store/postgres/postgres-store.ts')
  const { openExisting } = await import('../../src/store/open.ts')
  const { systemClock } = await import('../../src/base/clock.ts')
  const store = await openExisting(url, systemClock)
  expect(store).toBeInstanceOf(PostgresStore)
  const [holder, waiter] = [new Client(plain(url)), new Client(plain(url))]
  try {
    await Promise.all([holder.connect(), waiter.connect()])
    await holder.query('BEGIN; SELECT pg_advisory_xact_lock(77)')
    const [own] = (await waiter.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows
    const waiting = waiter.query('SELECT pg_advisory_xact_lock(77)').catch(() => undefined)
    const isBlocked = async () => (await store.diagnose()).blocked.find(({ pid }) => pid === own?.pid)
    await expect.poll(isBlocked).toBeDefined()
    const blocked = await isBlocked()
    await expect
      .poll(async () => (await store.diagnose()).transactions.map(({ pid }) => pid))
      .toEqual(expect.arrayContaining(blocked?.by as number[]))
    await holder.query('ROLLBACK')
    await waiting
  } finally {
    await Promise.all([holder.end(), waiter.end(), store.close()])
  }
})

function plain(url: string): { connectionString: string } {
  const parsed = new URL(url)
  parsed.search = ''
  return { connectionString: parsed.href }
}

test('sluice doctor and top say that there is no store, and refuse options that they do not have', async () => {
  const url = `sqlite:${folder()}/none.db`
  expect(await sluice(['doctor', '--store', url])).toMatchObject({ code: 1, out: '' })
  expect(await sluice(['top', '--once', '--store', url])).toMatchObject({ code: 1, out: '' })
  expect(await sluice(['doctor', '--watch'])).toMatchObject({ code: 2, out: '' })
})

test('sluice top goes on until Ctrl-C, with a line of JSON each second', async () => {
  const url = `sqlite:${folder()}/jobs.db`
  await filled(url)
  const child = start('top', '--json', '--store', url)
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
  let out = ''
  await new Promise<void>((resolve) => {
    child.stdout?.on('data', (chunk: Buffer) => {
      out += chunk.toString()
      if (out.split('\n').length > 2) resolve()
    })
  })
  child.kill('SIGINT')
  expect(await ended).toBe(0)
  expect(JSON.parse(out.split('\n')[1] ?? '')).toMatchObject({ jobs: { available: 3 }, perMinute: { started: 0 } })
})
