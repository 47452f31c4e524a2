import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createIds } from '../../src/base/ids.ts'
import { systemClock } from '../../src/base/clock.ts'
import { call, input, limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import type { NewJob } from '../../src/jobs/job.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { openExisting } from '../../src/store/open.ts'
import { everyStore, onSqlite } from '../stores.ts'
import { emptyStore, folder, sluice, start } from './terminal.ts'

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const kinds = await everyStore('sluice export and import')

const crm = limit('crm', { rate: 1, per: '1h' })
const tokens = limit('tokens', { window: 'sliding', max: 100, per: '1h', maxWait: '2h' })
const sync = task('tenant.sync', input<{ tenant: string }>(), {
  limits: [crm.by(({ tenant }) => tenant), tokens.weight(7)],
  queue: 'mail',
  run: () => undefined,
})

/** A store with jobs of every kind that can be moved. Its engine has ended. */
async function filled(url: string): Promise<string[]> {
  const engine = new Sluice({ store: url, tasks: [sync], logger: silentLogger })
  const jobs = await sync.enqueueMany(['acme', 'acme', 'büro "x"\n\u2028\u2029'].map((tenant) => ({ tenant })))
  const later = await sync.enqueue(
    { tenant: 'late' },
    { runAt: new Date('2100-01-01T00:00:00Z'), expiresAt: new Date('2100-02-01T00:00:00Z'), priority: 7 },
  )
  const once = await sync.enqueue({ tenant: 'one' }, { unique: 'only', meta: { a: 2 ** 60 }, tags: ['t'] })
  await engine.schedule(sync, { tenant: 'acme' }, { cron: '0 9 * * *', timezone: 'Europe/Paris', name: 'daily' })
  await engine.stop()
  // A server's queues have the names of their tenants before their own.
  const ofTenant = createIds(systemClock)()
  await inStore(url, (store) => store.push([{ ...PLAIN, id: ofTenant, queue: 'acme/default' }], []))
  return [...[...jobs, later, once].map(({ id }) => id), ofTenant]
}

const PLAIN: NewJob = {
  id: '',
  task: 'tenant.sync',
  queue: 'default',
  priority: 0,
  input: '{}',
  uses: [],
  maxAttempts: 3,
  runAtMs: null,
  expiresAtMs: null,
  unique: null,
  extra: null,
}

async function inStore<T>(url: string, use: (store: Store) => Promise<T>): Promise<T> {
  const store = await openExisting(url, systemClock)
  try {
    return await use(store)
  } finally {
    await store.close()
  }
}

/** Everything of a store that an export has, without what changes by itself. */
function standing(url: string): Promise<unknown> {
  return inStore(url, async (store) => {
    const jobs = (await store.list({ limit: 100 })).toSorted((a, b) => (a.id < b.id ? -1 : 1))
    const explained = await Promise.all(jobs.map(({ id }) => store.explain(id)))
    return {
      limits: await store.limits(),
      schedules: (await store.schedules()).map(({ nextDueMs: _, ...rest }) => rest.job),
      jobs: explained.map((found) => ({
        uses: found?.uses,
        uniqueKey: found?.uniqueKey,
        id: found?.job.id,
        input: found?.job.input,
        queue: found?.job.queue,
        state: found?.job.state,
        priority: found?.job.priority,
        due: found?.job.state === 'scheduled' ? found.job.dueUs : null,
        extra: JSON.parse(found?.job.extra ?? 'null') as unknown,
      })),
    }
  })
}

const ways = [...kinds.map((kind) => [kind, kind] as const), ...kinds.slice(1).map((kind) => [onSqlite, kind] as const)]

describe.each(ways)('from $name', (from, to) => {
  test(`to ${to.name}: nothing is lost, and a second import stores nothing twice`, async () => {
    const [source, target] = [from.create(), to.create()]
    const ids = await filled(source)
    await emptyStore(target)
    const file = join(folder(), 'jobs.ndjson')
    const exported = await sluice(['export', '--to', file, '--json', '--store', source])
    expect(exported).toMatchObject({ code: 0, err: '' })
    expect(JSON.parse(exported.out)).toEqual({ limits: 2, schedules: 1, jobs: 6, leftOut: 0 })
    const imported = await sluice(['import', file, '--yes', '--json', '--store', target])
    expect(imported).toMatchObject({ code: 0, err: '' })
    expect(JSON.parse(imported.out)).toEqual({ limits: 2, schedules: 1, jobs: 6, skipped: 0, kept: [] })
    expect(await standing(target)).toEqual(await standing(source))
    const again = await sluice(['import', file, '--yes', '--store', target])
    expect(again).toMatchObject({ code: 1, out: '' })
    expect(ids.some((id) => again.err.includes(id))).toBe(true)
    expect(await sluice(['import', file, '--yes', '--duplicates', 'skip', '--store', target])).toMatchObject({
      code: 0,
      out: '2 limits, 1 schedules and 0 jobs were imported. 6 jobs were skipped: the store has them.\n',
    })
  })
})

test.each(kinds)('a limit or a schedule with another definition on $name is never replaced', async (kind) => {
  const [source, target] = [kind.create(), kind.create()]
  await filled(source)
  const file = join(folder(), 'jobs.ndjson')
  await sluice(['export', '--to', file, '--store', source])
  const own = limit('crm', { rate: 7, per: '1s' })
  const there = task('tenant.other', input<string>(), { limits: [own.by((key) => key)], run: () => undefined })
  const engine = new Sluice({ store: target, tasks: [there], logger: silentLogger })
  await there.enqueue('acme')
  await engine.schedule(there, 'acme', { cron: '0 7 * * *', timezone: 'UTC', name: 'daily' })
  await engine.stop()
  const definitions = (): Promise<unknown> =>
    inStore(target, async (store) => [
      (await store.limits()).find(({ name }) => name === 'crm'),
      (await store.schedules()).map(({ name, recurrence }) => [name, recurrence]),
    ])
  const before = await definitions()
  const refused = await sluice(['import', file, '--yes', '--store', target])
  expect(refused).toMatchObject({ code: 1, out: '' })
  expect(refused.err).toMatch(/^error unique.conflict: Line \d+: the store has another definition of the limit crm/)
  expect(refused.err).toContain('(and 1 more). Add --duplicates skip to keep those of the store. Nothing was imported.')
  const asked = await sluice(['import', file, '--duplicates', 'skip', '--store', target])
  expect(asked.err).toContain('The store keeps its own definition of limit crm, schedule daily. Import 1 limits, 0')
  const kept = await sluice(['import', file, '--yes', '--duplicates', 'skip', '--json', '--store', target])
  const words = ['limit crm', 'schedule daily']
  expect(JSON.parse(kept.out)).toEqual({ limits: 1, schedules: 0, jobs: 6, skipped: 0, kept: words })
  expect(await definitions()).toEqual(before)
})

describe.each(kinds)('pending jobs on $name', (kind) => {
  test('are moved, remain pending, and wait for their limits once they are activated', async () => {
    const [source, target] = [kind.create(), kind.create()]
    const engine = new Sluice({ store: source, tasks: [sync], logger: silentLogger })
    await engine.jobs.cancel((await sync.enqueue({ tenant: 'acme' })).id)
    await engine.stop()
    const id = '01a20021-deb9-7f2f-a3ad-017f490bb225'
    const terms = { givenId: true, pending: true, leaseUs: null, timeoutUs: null, deadLetter: false }
    const uses = [{ limit: 'crm', key: 'acme', weight: 1 }]
    await inStore(source, (store) => store.push([{ ...PLAIN, id, uses, terms }], []))
    await emptyStore(target)
    const file = join(folder(), 'jobs.ndjson')
    const exported = await sluice(['export', '--to', file, '--json', '--store', source])
    expect(JSON.parse(exported.out)).toEqual({ limits: 2, schedules: 0, jobs: 1, leftOut: 0 })
    const imported = await sluice(['import', file, '--yes', '--store', target])
    expect(imported).toMatchObject({ code: 0, err: '' })
    await inStore(target, async (store) => {
      expect(await store.list({})).toMatchObject([{ id, state: 'pending', task: 'tenant.sync' }])
      expect(await store.activate(id, null)).toBe('pending')
      expect(await store.storedJobs([id])).toMatchObject([{ state: 'available', uses }])
    })
  })

  test('of flows are left out and counted', async () => {
    const url = kind.create()
    const engine = new Sluice({ store: url, tasks: [sync], logger: silentLogger })
    const steps = [call(sync, { tenant: 'acme' }), call(sync, { tenant: 'birch' })]
    await engine.flows.start({ kind: 'chain', steps })
    await engine.stop()
    const { out, err } = await sluice(['export', '--store', url])
    expect(err).toContain('0 jobs were exported; 2 jobs were left out.')
    expect(out).not.toContain('"job"')
  })
})

describe('a bad file', () => {
  const good = {
    kind: 'job',
    id: '01a20021-deb9-7f2f-a3ad-017f490bb225',
    task: 'work',
    input: { a: 1 },
    uses: [{ limit: 'crm', key: 'acme' }],
  }
  const rate = { kind: 'rate', rate: 1, periodUs: 1e6, burst: 1, startEmpty: false }
  const policy = { rule: rate, concurrency: null, onLimit: 'wait', maxWaitUs: null, retries: 'charge' }
  const of = { limit: 'nope', rule: rate, concurrency: null, keys: null, overcommit: 'refuse' }
  const crmLine = { kind: 'limit', name: 'crm', version: 0, policy }

  test('stores nothing, and names its line', async () => {
    const url = `sqlite:${join(folder(), 'jobs.db')}`
    await emptyStore(url)
    const file = join(folder(), 'bad.ndjson')
    const cases: [unknown, string][] = [
      ['{', 'not JSON'],
      [
        JSON.stringify(good).replace('"a":1', '"a":9007199254740993'),
        'input.a: 9007199254740993 cannot be stored exactly',
      ],
      [{ ...good, id: 'x' }, 'no id of a job'],
      [{ ...good, priority: 101 }, 'priority'],
      [{ ...good, pirority: 1 }, 'pirority'],
      [{ ...good, queue: 'No Queue' }, 'queue name is invalid'],
      [{ ...good, queue: 'acme/No Queue' }, 'queue name is invalid'],
      [{ ...good, queue: 'a b/default' }, 'queue name is invalid'],
      [{ ...good, runAt: 'tomorrow' }, 'runAt'],
      [{ ...good, runAt: '9999-01-01T00:00:00Z' }, 'runAt'],
      [{ ...good, uses: [{ limit: 'crm', weight: 0 }] }, 'weight'],
      [{ ...good, uses: [{ limit: 'crm' }, { limit: 'crm' }] }, 'twice'],
      [{ ...good, task: 'a\0b' }, 'task'],
      [{ ...good, pending: true, runAt: '2100-01-01T00:00:00Z' }, 'pending and runAt exclude each other'],
      [{ ...good, uniqueKey: 'other:x' }, 'uniqueKey'],
      [{ ...good, uses: [{ limit: 'nope' }] }, 'neither the file nor the store'],
      [{ ...crmLine, policy: { ...policy, rule: { ...rate, rate: -1 } } }, 'rate'],
      [{ ...crmLine, policy: { ...policy, rule: { kind: 'magic' } } }, 'kind'],
      [{ ...crmLine, name: 'eu', policy: { ...policy, of } }, 'neither the file nor the store'],
      [{ kind: 'what' }, 'kind'],
      [[], 'Line 3 is invalid: Invalid input'],
    ]
    const { importLines, linesOf } = await import('../../src/cli/transfer/read-lines.ts')
    const store = await openExisting(url, systemClock)
    try {
      for (const [line, words] of cases) {
        writeFileSync(file, `${JSON.stringify(crmLine)}\n\n${typeof line === 'string' ? line : JSON.stringify(line)}\n`)
        const work = async (): Promise<unknown> =>
          importLines(store, await linesOf(file), { duplicates: 'refuse', dryRun: false })
        await expect(work()).rejects.toThrow(/Line 3 .*/)
        await expect(work()).rejects.toThrow(words)
      }
      const schedule = {
        kind: 'schedule',
        name: 'daily',
        recurrence: { kind: 'every', everyUs: 1e9 },
        overlap: 'skip',
        onMissed: 'skip',
        job: { task: 'work', input: null },
      }
      for (const twice of [crmLine, schedule]) {
        writeFileSync(file, `${JSON.stringify(twice)}\n${JSON.stringify(twice)}\n`)
        await expect(
          linesOf(file).then((lines) => importLines(store, lines, { duplicates: 'skip', dryRun: false })),
        ).rejects.toThrow(`Line 2 is invalid: line 1 defines the ${twice.kind} ${twice.name}, too`)
      }
      writeFileSync(file, `${JSON.stringify(crmLine)}\n${JSON.stringify(good)}\n${JSON.stringify(good)}\n`)
      await expect(
        linesOf(file).then((lines) => importLines(store, lines, { duplicates: 'skip', dryRun: false })),
      ).rejects.toThrow('same id')
      expect(await store.limits()).toEqual([])
      expect(await store.list({})).toEqual([])
    } finally {
      await store.close()
    }
    expect(await sluice(['import', file, '--yes', '--store', url])).toMatchObject({ code: 2, out: '' })
    expect(await sluice(['import', `${file}.none`, '--yes', '--store', url])).toMatchObject({ code: 2, out: '' })
  })

  test('an export to a file that exists is refused, and one to standard output is lines alone', async () => {
    const url = `sqlite:${join(folder(), 'jobs.db')}`
    await filled(url)
    const file = join(folder(), 'there')
    writeFileSync(file, 'mine')
    expect(await sluice(['export', '--to', file, '--store', url])).toMatchObject({ code: 2, out: '' })
    expect(readFileSync(file, 'utf8')).toBe('mine')
    const { code, out, err } = await sluice(['export', '--store', url])
    expect(code).toBe(0)
    expect(err).toContain('6 jobs were exported')
    expect(
      out
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { kind: string }).kind),
    ).toEqual(expect.arrayContaining(['limit', 'schedule', 'job']))
  })
})

test.each([
  ['a file', ' --to "$1"', /^error cli\.usage: .+EFBIG.+ not complete, and its file was removed\.$/m],
  [
    'standard output',
    ' > "$1"',
    /^error cli\.usage: Standard output cannot be written: EFBIG.+ It is not complete\.$/m,
  ],
])('an export to %s that there is no room for says so, and leaves no half file by its name', async (_, to, words) => {
  const dir = folder()
  const store = `sqlite:${join(dir, 'big.db')}`
  const big = task('big', input<string>(), { run: () => undefined })
  const engine = new Sluice({ store, tasks: [big], logger: silentLogger })
  await big.enqueueMany(Array.from({ length: 40 }, () => 'x'.repeat(100_000)))
  await engine.stop()
  const file = join(dir, 'out.ndjson')
  // A bound of 512 kB, or of 1 MB, as the shell counts its blocks: the disk is as full as that.
  const script = `ulimit -f 1024; exec "$2" "$3" export --store "$4"${to}`
  const { status, stderr } = spawnSync('sh', ['-c', script, 'sh', file, process.execPath, MAIN, store], {
    encoding: 'utf8',
  })
  expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringMatching(words) as string })
  if (to.includes('--to')) expect(readdirSync(dir)).not.toContain('out.ndjson')
})

const postgres = kinds.find(({ name }) => name === 'postgres')

test.runIf(postgres).each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('an export that %s ends removes its file, and ends with %i', async (signal, code) => {
  const url = postgres?.create() ?? ''
  await filled(url)
  const file = join(folder(), 'out.ndjson')
  // The export waits for the jobs as long as another transaction holds the table.
  const other = new Client({ connectionString: url })
  await other.connect()
  onTestFinished(() => other.end())
  await other.query(`BEGIN; LOCK TABLE ${new URL(url).searchParams.get('schema')}.jobs IN ACCESS EXCLUSIVE MODE`)
  const child = start('export', '--to', file, '--store', url)
  const ended = new Promise((resolve) => void child.once('exit', (...how) => resolve(how)))
  await expect.poll(() => existsSync(file)).toBe(true)
  child.kill(signal)
  expect(await ended).toEqual([code, null])
  expect(existsSync(file)).toBe(false)
})
