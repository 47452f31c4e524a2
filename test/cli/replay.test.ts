import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { input, Sluice, task } from '../../src/exports/index.ts'
import { sluice } from './terminal.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-replay-'))
const store = `sqlite:${join(folder, 'jobs.db')}`
const file = (name: string, text: string): string => {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

beforeAll(async () => {
  const sync = task('sync', input<{ tenant: string }>(), { run: () => undefined })
  const engine = new Sluice({ store, tasks: [sync] })
  await sync.enqueueMany(['acme', 'acme', 'acme', 'birch'].map((tenant) => ({ tenant })))
  await engine.stop()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('sluice replay', () => {
  it('shows what a policy would have done to the jobs of the store, as a table and as data', async () => {
    const { code, out, err } = await sluice([
      'replay',
      '--store',
      store,
      '--policy',
      '1 per 1s',
      '--since',
      '24h',
      '--by',
      'tenant',
    ])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(/^4 arrivals of 2 keys, /m)
    expect(out).toMatch(/^all +4 +2 +0 /m)
    expect(out).toMatch(/^acme +3 +2 +0 /m)
    const json = await sluice([
      'replay',
      '--store',
      store,
      '--policy',
      '{"rate":1,"per":"1s","onLimit":"drop"}',
      '--since',
      '24h',
      '--json',
    ])
    expect(JSON.parse(json.out)).toMatchObject({ arrivals: 4, dropped: 3, keys: 1, truncated: false })
  })

  it('reads arrivals from a file', async () => {
    const path = file(
      'arrivals.ndjson',
      '{"at":"2030-01-31T12:00:00Z","key":"acme"}\r\n\n{"at":"2030-01-31T13:00:00.5+01:00","key":"acme","weight":2}\n',
    )
    const { code, out } = await sluice(['replay', '--file', path, '--policy', '1 per 1s', '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ arrivals: 2, delayed: 1, worstMs: 500, worst: [{ key: 'acme' }] })
  })

  it('ends with 1 where nothing arrived, or there is no store', async () => {
    const none = await sluice(['replay', '--store', store, '--policy', '1/s', '--since', '24h', '--task', 'other'])
    expect(none).toMatchObject({ code: 1, out: 'There is no arrival.\n' })
    const missing = await sluice(['replay', '--store', 'sqlite:/nowhere/x.db', '--policy', '1/s', '--since', '1h'])
    expect(missing.code).toBe(1)
  })

  it.each<[string, string[], string]>([
    ['no policy', ['--since', '1h'], '--policy'],
    ['a policy that is none', ['--policy', '1 per blue', '--since', '1h'], 'policy.invalid'],
    ['JSON that is none', ['--policy', '{rate:1}', '--since', '1h'], 'not JSON from line 1, column'],
    ['a misspelt field', ['--policy', '{"rate":1,"per":"1m","burts":2}', '--since', '1h'], 'did you mean burst'],
    ['neither store nor file', ['--policy', '1/s'], '--since 24h'],
    ['a time that is none', ['--policy', '1/s', '--since', 'soon'], 'since is invalid'],
    ['a path that is none', ['--policy', '1/s', '--since', '1h', '--by', 'a..b'], 'by is invalid'],
    ['both', ['--policy', '1/s', '--since', '1h', '--file', '-'], 'exclude each other'],
    ['a file that is not there', ['--policy', '1/s', '--file', '/nowhere/x'], 'cannot be read'],
    ['a folder', ['--policy', '1/s', '--file', folder], 'cannot be read'],
    ['a line that is not JSON', ['--policy', '1/s', '--file', file('a', '{"at":0}\n{at}')], 'line 2 is not JSON'],
    ['a line without a time', ['--policy', '1/s', '--file', file('b', '\n{"at":0}\n\n{"key":"a"}')], 'b, line 4: at'],
    ['a name twice', ['--policy', '1/s', '--file', file('e', '{"at":0}\n{"at":0,"at":1}')], 'line 2 is invalid: at is'],
    [
      'a name twice in the policy',
      ['--policy', '{"rate":1,"rate":2,"per":"1s"}', '--file', '-'],
      'rate is there twice',
    ],
    ['a line that is no object', ['--policy', '1/s', '--file', file('c', '[]')], 'c, line 1'],
    ['no run time', ['--policy', '1 at once', '--file', file('d', '{"at":0}')], 'Give runTime'],
  ])('refuses %s with 2', async (_name, args, message) => {
    const { code, out, err } = await sluice(
      ['replay', '--store', store, ...args].filter(
        (each, i, all) => !all.includes('--file') || (each !== '--store' && all[i - 1] !== '--store'),
      ),
    )
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(message)
  })
})
