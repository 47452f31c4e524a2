// The commands that look, as their users start them: processes of their own on a store that another process has left.
import { DatabaseSync } from 'node:sqlite'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { BucketView } from '../../src/engine/api/bucket-view.ts'
import type { JobExplanation } from '../../src/engine/api/job-explanation.ts'
import type { JobView } from '../../src/engine/api/job-view.ts'
import type { ScheduleView } from '../../src/engine/api/schedules.ts'
import type { Forecast } from '../../src/policy/forecast/what-if.ts'
import { folder, sluice, start, storeWithSchedules, storeWithWaiting } from './terminal.ts'

/** The value as JSON carries it. */
async function json<T>(...args: string[]): Promise<T> {
  const { code, out, err } = await sluice([...args, '--json'])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  return JSON.parse(out) as T
}

describe('sluice limits', () => {
  it('shows every limit, then the budgets of one, the longest line first', async () => {
    const { url } = await storeWithWaiting()
    const all = await sluice(['limits', '--store', url])
    expect(all).toMatchObject({ code: 0, err: '' })
    expect(all.out).toMatch(/^limit +policy +budgets +waiting +next start +drained$/m)
    expect(all.out).toMatch(/^crm +1 per 1 h, burst 1 +2 +4 +(1 h 0 min|59 min \d+ s) +(3 h 0|2 h 59) min$/m)
    expect(all.out).toMatch(
      /^llm +100 in any 1 h, guard 20 ms +1 +2 +(1 h 0 min|59 min \d+ s) +(1 h 0 min|59 min \d+ s)$/m,
    )
    const one = await sluice(['limits', 'crm', '--store', url])
    expect(one.out.split('\n').map((line) => line.split(' ')[0])).toEqual(['crm:', 'key', 'acme', 'birch', ''])
    expect(one.out).toMatch(/^acme +0 of 1 +3 /m)
  })

  it('gives the same as data', async () => {
    const { url } = await storeWithWaiting()
    const totals = await json<{ name: string; waiting: number }[]>('limits', '--store', url)
    expect(totals).toMatchObject([
      { name: 'crm', waiting: 4, buckets: 2 },
      { name: 'llm', waiting: 2, buckets: 1 },
    ])
    const [acme, ...others] = await json<BucketView[]>('limits', 'crm', '--key', 'acme', '--store', url)
    expect(acme).toMatchObject({ limit: 'crm', key: 'acme', available: 0, capacity: 1, waiting: 3 })
    expect(others).toEqual([])
  })

  it('watches: once a second, until Ctrl-C, which is no error', async () => {
    const { url } = await storeWithWaiting()
    const watcher = start('limits', 'crm', '--key', 'acme', '--json', '--watch', '--store', url)
    const ended = new Promise<number | null>((resolve) => watcher.once('exit', resolve))
    let out = ''
    await new Promise<void>((resolve) => {
      watcher.stdout?.on('data', (chunk: Buffer) => {
        out += chunk.toString()
        if (out.split('\n').length > 2) resolve()
      })
    })
    watcher.kill('SIGINT')
    expect(await ended).toBe(0)
    const [first, second] = out.split('\n').map((line) => (line === '' ? null : (JSON.parse(line) as BucketView[])))
    expect(first).toMatchObject([{ key: 'acme', waiting: 3 }])
    expect(second).toMatchObject([{ key: 'acme', waiting: 3 }])
  })
})

describe('sluice schedules', () => {
  it('shows every schedule: how often, what comes next, what came last', async () => {
    const url = await storeWithSchedules()
    const { code, out, err } = await sluice(['schedules', '--store', url])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(/^schedule +task +queue +often +next +last +runs$/m)
    expect(out).toMatch(/^daily +report +default +0 9 \* \* \* \(Europe\/Paris\) +in .+ +0$/m)
    expect(out).toMatch(/^once +report +default +every 1 h +ended +(now|[\d.]+ m?s ago) +1 of 1$/m)
  })

  it('gives the same as data, of one by its name, and says when there is none of that name', async () => {
    const url = await storeWithSchedules()
    expect(await json<ScheduleView[]>('schedules', '--store', url)).toMatchObject([{ name: 'daily' }, { name: 'once' }])
    const [once] = await json<ScheduleView[]>('schedules', 'once', '--store', url)
    expect(once).toMatchObject({ state: 'completed', runs: 1, every: 3_600_000, nextAt: null })
    expect(await sluice(['schedules', 'nothing', '--store', url])).toMatchObject({
      code: 1,
      err: expect.stringContaining('No schedule nothing') as string,
    })
  })
})

describe('sluice jobs', () => {
  it('lists jobs, the newest first, and those that wait with when their budget goes on', async () => {
    const { url, acme } = await storeWithWaiting()
    const found = await sluice([
      'jobs',
      '--store',
      url,
      '--task',
      'tenant.sync',
      '--state',
      'available',
      '--limit',
      '2',
    ])
    expect(found).toMatchObject({ code: 0, err: '' })
    const lines = found.out.trim().split('\n')
    expect(lines).toHaveLength(3)
    expect(lines[1]).toMatch(/tenant\.sync +default +available +0 +0 of 3 +\S+ \S+ ago +in (1 h 0|59) min/)
    expect(lines[2]).toContain(acme[2])
    const done = await json<JobView[]>('jobs', '--state', 'completed,active', '--queue', 'models', '--store', url)
    expect(done.map(({ task, state }) => [task, state])).toEqual(
      Array.from({ length: 3 }, () => ['llm.ask', 'completed']),
    )
  })

  it('explains one', async () => {
    const { url, acme } = await storeWithWaiting()
    const [, second = ''] = acme
    const data = await json<JobExplanation>('jobs', second, '--store', url)
    expect(data).toMatchObject({
      position: 2,
      linePosition: 2,
      waitsOn: { limit: 'crm', key: 'acme' },
      served: false,
      exact: false,
    })
    const { out } = await sluice(['jobs', second, '--store', url])
    expect(out).toMatch(/^limits +crm for acme holds it back$/m)
    expect(out).toMatch(/^expected start +no sooner than .* \(in (2 h 0|1 h 59) min\)$/m)
    expect(out).toContain('No live process serves queue default.')
  })

  it('shows no control characters of a key, a task or an error', async () => {
    const path = folder()
    const { url, acme } = await storeWithWaiting(path)
    const db = new DatabaseSync(join(path, 'jobs.db'))
    db.prepare(`UPDATE buckets SET key = ? WHERE key = 'acme'`).run('ac\u001B[2Jme\n')
    db.close()
    for (const args of [
      ['limits', 'crm'],
      ['jobs', acme[0] ?? ''],
    ]) {
      const { out } = await sluice([...args, '--store', url])
      expect(out).toContain('ac�[2Jme�')
      expect(out).not.toContain('\u001B')
    }
  })
})

describe('sluice forecast', () => {
  it('tells when the backlog of a store is done with, and what another policy would change', async () => {
    const { url } = await storeWithWaiting()
    const now = await json<Forecast>('forecast', 'crm', '--store', url)
    expect(now).toMatchObject({ jobs: 4, keys: 2, exact: true })
    expect(now.drainMs).toBeGreaterThan(2.9 * 3_600_000)
    expect(now.drainMs).toBeLessThanOrEqual(3 * 3_600_000)
    const [faster, birch, window] = await Promise.all([
      json<Forecast>('forecast', 'crm', '--rate', '60', '--per', '1h', '--store', url),
      json<Forecast>('forecast', 'crm', '--key', 'birch', '--store', url),
      json<Forecast>('forecast', 'llm', '--store', url),
    ])
    expect(faster.jobs).toBe(4)
    expect(faster.drainMs).toBeGreaterThan(120_000)
    expect(faster.drainMs).toBeLessThanOrEqual(180_000)
    expect(birch).toMatchObject({ jobs: 1, keys: 1 })
    expect(window).toMatchObject({ jobs: 2, exact: true })
    const given = await json<Forecast>('forecast', 'crm', '--count', '25', '--store', url)
    expect(given).toMatchObject({ jobs: 25, drainMs: 24 * 3_600_000 })
  })

  it('needs no store for a policy that might be', async () => {
    const { code, out } = await sluice(['forecast', '--count', '1010', '--rate', '10', '--per', '1s'])
    expect(code).toBe(0)
    expect(out).toMatch(/^the last starts after +1 min 40 s +49\.5 s$/m)
    const keyed = await json<Forecast>('forecast', '--keys', 'acme=11,birch=1', '--every', '100ms', '--shared', '1/1s')
    expect(keyed).toMatchObject({ jobs: 12, keys: 2, drainMs: 11_000, exact: false })
    const text = ['forecast', '--count', '12', '--policy', '1 per 100ms, burst 2', '--shared', '1/s']
    expect(await json<Forecast>(...text)).toMatchObject({ jobs: 12, drainMs: 11_000 })
    const slots = await json<Forecast>('forecast', '--count', '9', '--concurrency', '2', '--run-time', '10s')
    expect(slots).toMatchObject({ drainMs: 40_000, exact: true })
  })

  it.each([
    [[], 'cli.usage'],
    [['--count', '5'], 'cli.usage'],
    [['--count', 'x', '--every', '1s'], 'cli.usage'],
    [['--keys', '5', '--every', '1s'], 'cli.usage'],
    [['--count', '5', '--every', '1s', '--shared', 'crm'], 'cli.usage'],
    [['--count', '5', '--rate', '5'], 'policy.invalid'],
    [['--count', '5', '--every', '1x'], 'policy.invalid'],
    [['--count', '5', '--policy', '5/x'], 'policy.invalid'],
    [['--count', '5', '--policy', '5/s', '--rate', '5'], 'policy.invalid'],
    [['--count', '5', '--weight', '9', '--rate', '5', '--per', '1s'], 'limit.weight.above_burst'],
  ])('refuses %j', async (args, error) => {
    const { code, out, err } = await sluice(['forecast', ...args])
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toMatch(new RegExp(`^error ${error.replaceAll('.', '\\.')}: `))
  })
})

describe('the store of a command that looks', () => {
  it('is not made when it is not there', async () => {
    const path = folder()
    for (const args of [['limits'], ['jobs'], ['jobs', 'x'], ['forecast', 'crm']]) {
      const { code, out, err } = await sluice([...args, '--store', `sqlite:${join(path, 'none.db')}`])
      expect({ code, out }).toEqual({ code: 1, out: '' })
      expect(err).toMatch(/^error store\.missing: .*none\.db does not exist/)
    }
    expect(readdirSync(path)).toEqual([])
  })

  it('is --store, else SLUICE_STORE, else ./sluice.db', async () => {
    const { url } = await storeWithWaiting()
    const cwd = folder()
    const env = { SLUICE_STORE: url }
    expect(await sluice(['limits'], { cwd, env })).toMatchObject({ code: 0 })
    expect((await sluice(['limits', '--store', 'sqlite:./other.db'], { cwd, env })).err).toContain('other.db')
    expect((await sluice(['limits'], { cwd })).err).toContain('./sluice.db does not exist')
  })

  it('is left alone when it is something else, or of another version', async () => {
    const path = folder()
    const file = join(path, 'notes.db')
    writeFileSync(file, 'not a database at all, just some text that somebody keeps')
    expect((await sluice(['limits', '--store', `sqlite:${file}`])).err).toMatch(/^error store\.missing: /)
    const foreign = join(path, 'foreign.db')
    const db = new DatabaseSync(foreign)
    db.exec('CREATE TABLE notes (text TEXT)')
    db.close()
    expect((await sluice(['limits', '--store', `sqlite:${foreign}`])).err).toContain('is not a store of Sluice')
    const after = new DatabaseSync(foreign)
    expect(after.prepare('SELECT name FROM sqlite_schema').all()).toMatchObject([{ name: 'notes' }])
    after.close()
    const { url } = await storeWithWaiting(path)
    const old = new DatabaseSync(join(path, 'jobs.db'))
    old.exec('PRAGMA user_version = 0')
    old.close()
    expect((await sluice(['limits', '--store', url])).err).toMatch(/^error store\.version: /)
    expect(await sluice(['limits', '--store', 'sqlite::memory:'])).toMatchObject({ code: 1 })
    expect(await sluice(['limits', '--store', 'nonsense'])).toMatchObject({ code: 2 })
    expect(existsSync(join(path, 'nonsense'))).toBe(false)
  })

  it('and the options are checked', async () => {
    const { url } = await storeWithWaiting()
    const calls = [
      ['limits', '--key', 'a'],
      ['jobs', '--limit', '0'],
      ['jobs', '--limit', 'x'],
      ['jobs', '--state', 'lost'],
    ]
    for (const args of calls) expect((await sluice([...args, '--store', url])).code).toBe(2)
    for (const args of [
      ['limits', 'nix'],
      ['jobs', 'nix'],
      ['forecast', 'nix'],
    ])
      expect((await sluice([...args, '--store', url])).code).toBe(1)
  })
})
