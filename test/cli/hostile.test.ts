// Slips of the keyboard, readers that leave, odd values: a command never ends with a
// stack trace.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { symlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { input, limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { onSqlite } from '../stores.ts'
import { folder, sluice } from './terminal.ts'

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))

async function open(jobs: number): Promise<string> {
  const url = onSqlite.create()
  const crm = limit('crm', { rate: 5, per: '1h', burst: 5 })
  const calm = limit('calm', { every: '1h' })
  const work = task('work', input<number>(), { limits: [crm, calm], run: () => undefined })
  const engine = new Sluice({ store: url, tasks: [work], logger: silentLogger })
  await work.enqueueMany(Array.from({ length: jobs }, (_, i) => i))
  await engine.stop()
  return url
}

describe('a reader that leaves at once', () => {
  test.each([['export'], ['completion', 'bash'], ['jobs', '--limit', '1000', '--json'], ['presets']])(
    'is no error for sluice %s',
    async (...args) => {
      const url = await open(2_000)
      const env = { ...process.env, SLUICE_STORE: url }
      const child = spawn(process.execPath, [MAIN, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] })
      child.stdout.destroy()
      let err = ''
      child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()))
      const [code] = (await once(child, 'close')) as [number]
      expect({ code, err }).toEqual({ code: 0, err: '' })
    },
  )
})

describe('a slip', () => {
  test.each([
    [['queues', 'paus', 'default'], 'Did you mean queues pause?'],
    [['limits', 'overide', 'crm', '5/s'], 'Did you mean limits override?'],
    [['jobs', 'cancle', 'x'], 'Did you mean jobs cancel?'],
    [['schedules', 'resum', 'x'], 'Did you mean schedules resume?'],
    [['quues'], 'Did you mean queues?'],
    [['help', 'quues'], 'did you mean queues?'],
    [['help', 'jobs', 'cancle'], 'did you mean cancel?'],
    [['schedules', 'rm', 'daily', '--yess'], 'Did you mean --yes?'],
    [['help', 'limits', 'list'], 'sluice help limits lists'],
    [['jobs', '--stat', 'active'], 'Did you mean --state?'],
  ])('%j is refused with a hint', async (args, hint) => {
    const { code, out, err } = await sluice(args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(hint)
  })

  test.each([
    [['enqueue', 'work', '--limit', 'crm=a', '--limit', 'crm=a'], "'crm=a' is named twice"],
    [['enqueue', 'work', '--limit', 'crm', '--weight', '6'], 'limit.weight.above_burst'],
    [['enqueue', 'work', '--limit', 'crm', '--weight', '6', '--dry-run'], 'limit.weight.above_burst'],
    [['replay', '--policy', '5/s', '--since', '1h', '--weight=-1'], '--weight is invalid'],
    [['replay', '--policy', '5/s', '--since', '1h', '--weight', ''], '--weight is invalid'],
    [['forecast', '--keys', 'a=1,a=2', '--policy', '5/s'], 'names "a" twice'],
    [['forecast', '--keys', 'a=1,', '--policy', '5/s'], '--keys is invalid: "". Expected the jobs of each key'],
    [['forecast', '--keys', '=5', '--policy', '5/s'], '--keys is invalid: "=5"'],
    [['forecast', '--keys', 'a=1e999', '--policy', '5/s'], '--keys is invalid: "a=1e999"'],
    [['forecast', '--policy', '5/s', '--key', 'a'], '--key needs <limit>'],
    [['dashboard', '--port', '70000'], '--port is invalid'],
    [['dashboard', '--port', '1e3'], '--port is invalid'],
    [['demo', '--fast', '--dashboard', '--port', '99999'], '--port is invalid'],
    [['jobs', 'x', '--state', 'active'], '--state selects jobs, and an id names one'],
    [['jobs', 'cancel', '--yes'], 'the filter is empty'],
    [['queues', 'bound', 'default', 'None'], 'Expected a whole number from 1, or none'],
    [['limits', 'pause', 'crm', '--until', '1000000000h'], 'or a time from now, as 10m, of at most 100 years'],
    [['enqueue', 'work', '--limit', '=a'], 'The limit of --limit "=a" is empty'],
  ])('%j is refused', async (args, words) => {
    const { code, out, err } = await sluice(args, { env: { SLUICE_STORE: await open(0) } })
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(words)
    expect(err).toMatch(/^error /)
  })

  test('a weight under a limit that counts no units is 1, as in code', async () => {
    const url = await open(0)
    const { out } = await sluice(['enqueue', 'work', '--limit', 'calm', '--weight', '6', '--json', '--store', url])
    const { id } = JSON.parse(out) as { id: string }
    const shown = await sluice(['jobs', id, '--json', '--store', url])
    expect(JSON.parse(shown.out)).toMatchObject({ limits: [{ limit: 'calm', weight: 1 }] })
  })
})

describe('a name that cannot be one is a wrong call on every verb', () => {
  const long = 'x'.repeat(256)
  test.each([
    [['jobs', ''], 'The id is empty'],
    [['jobs', 'promote', ''], 'The id is empty'],
    [['jobs', 'reschedule', '', '10m'], 'The id is empty'],
    [['jobs', 'cancel', 'x', '', '--yes'], 'The id is empty'],
    [['limits', ''], 'The name is empty'],
    [['limits', 'pause', ''], 'The name is empty'],
    [['limits', 'override', '', '5/s'], 'The name is empty'],
    [['limits', 'penalize', '', '5s'], 'The name is empty'],
    [['limits', 'crm', '--key', ''], '--key is empty'],
    [['queues', 'pause', ''], 'The queue is empty'],
    [['queues', 'bound', '', '5'], 'The queue is empty'],
    [['queues', 'drain', ''], 'The queue is empty'],
    [['schedules', ''], 'The name is empty'],
    [['schedules', 'pause', ''], 'The name is empty'],
    [['schedules', 'run', ''], 'The name is empty'],
    [['schedules', 'rm', '', '--yes'], 'The name is empty'],
    [['flows', 'show', ''], 'The id is empty'],
    [['flows', 'signal', 'x', ''], 'The name is empty'],
    [['flows', 'retry', 'x', '--from', ''], '--from is empty'],
    [['forecast', ''], 'The limit is empty'],
    [['jobs', '--queue', long], '--queue is invalid'],
    [['schedules', long], 'The name is invalid'],
  ])('%j', async (args, words) => {
    // No store is asked: there is none.
    const { code, out, err } = await sluice([...args, '--store', 'sqlite:/nope/jobs.db'])
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toMatch(/^error cli\.usage: /)
    expect(err).toContain(words)
    expect(err.length).toBeLessThan(250)
  })
})

describe('an option that a command would ignore is a wrong call', () => {
  test.each([
    [['jobs', '--queue', 'a', '--queue', 'b'], '--queue is given twice'],
    [['jobs', '--queue', 'a', 'cancel', '--queue', 'b', '--yes'], '--queue is given twice'],
    [['jobs', '--filter', 'tag=a', 'cancel', '--filter', 'tag=b', '--yes'], '--filter is given twice'],
    [['jobs', '--store', 'sqlite:a.db', 'promote', 'x', '--store', 'sqlite:b.db'], '--store is given twice'],
    [['limits', 'pause', 'crm', '--key', 'a', '--key', 'b'], '--key is given twice'],
    [['import', 'x', '--duplicates', 'skip', '--duplicates', 'refuse'], '--duplicates is given twice'],
    [['jobs', '--limit', '5', 'cancel', '--state', 'active', '--yes'], '--limit does not belong to jobs cancel'],
    [['jobs', 'cancel', '--state', 'active', '--limit', '5', '--yes'], '--limit does not belong to jobs cancel'],
    [['queues', '--watch', 'pause', 'default'], '--watch does not belong to queues pause'],
    [['demo', '--port', '4000'], '--port needs --dashboard'],
    [['limits', '--key', 'acme'], '--key needs <name>'],
    [['enqueue', 'work', '--no-limits', '--weight', '5'], '--weight needs --limit'],
    [['export', '--json'], '--json needs --to'],
    [['forecast', 'crm', '--key', 'a', '--count', '9'], "'--key <key>' cannot be used with option '--count <jobs>'"],
    [['forecast', 'crm', '--key', 'a', '--keys', 'a=9'], "'--key <key>' cannot be used with option '--keys <keys>'"],
    [['forecast', '--count', '9', '--policy', '5/s', '--store', 'sqlite:x.db'], '--store needs <limit>'],
  ])('%j', async (args, words) => {
    const { code, out, err } = await sluice(args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toContain(words)
  })
})

describe('an empty path or URL is a wrong call', () => {
  test.each([
    [['import', '', '--yes'], '<file> is empty'],
    [['workflows', 'check', ''], '<file> is empty'],
    [['workflows', 'check', 'x.json', '--config', ''], '--config is empty'],
    [['export', '--to', ''], '--to is empty'],
    [['replay', '--policy', '5/s', '--file', ''], '--file is empty'],
    [['replay', '--policy', '5/s', '--since', '1h', '--by', ''], '--by is empty'],
    [['config', '--config', ''], '--config is empty'],
    [['serve', '--check', '--config', ''], '--config is empty'],
    [['config', '--budgets', ''], '--budgets is empty'],
    [['demo', '--fast', '--redis', ''], '--redis is empty'],
    [['jobs', '--store', ''], '--store is empty'],
  ])('%j', async (args, words) => {
    const { code, out, err } = await sluice(args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toMatch(/^error cli\.usage: .*\n$/)
    expect(err).toContain(words)
  })
})

describe('a call that cannot be read is one line with a code', () => {
  test.each([
    [['migrate', 'extra'], "too many arguments for 'migrate'"],
    [['jobs', '--stat', 'active'], "unknown option '--stat' (Did you mean --state?)"],
    [['quues'], "unknown command 'quues' (Did you mean queues?)"],
    [['queues', 'paus', 'default'], '(Did you mean queues pause?)'],
    [['jobs', 'promote'], "missing required argument 'id'"],
    [['limits', '--key'], "option '--key <key>' argument missing"],
    [['help', 'quues'], "unknown command 'quues'"],
  ])('%j', async (args, words) => {
    const { code, out, err } = await sluice(args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(err).toMatch(/^error cli\.usage: .*\n$/)
    expect(err).toContain(words)
  })
})

test('an error shows no commands to the terminal', async () => {
  const env = { SLUICE_STORE: await open(0) }
  for (const args of [
    ['jobs', '\u001B[2Jx'],
    ['jobs', 'a', '\u001B[2Jx'],
    ['schedules', 'run', '\u001B[2Jx'],
  ]) {
    const { code, err } = await sluice(args, { env })
    expect(code).toBeGreaterThan(0)
    expect(err).not.toContain('\u001B')
  }
})

test('a dashboard at a port that is taken is refused in words', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const { port } = taken.address() as { port: number }
  const { code, err } = await sluice(['dashboard', '--port', String(port), '--store', await open(0)])
  taken.close()
  expect(code).toBe(1)
  expect(err).toMatch(/^error /)
  expect(err).toContain(String(port))
})

test('a dashboard whose page was not built ends with its error', async () => {
  const root = folder()
  for (const name of ['src', 'package.json', 'node_modules'])
    symlinkSync(fileURLToPath(new URL(`../../${name}`, import.meta.url)), join(root, name))
  const env = { NODE_OPTIONS: '--preserve-symlinks --preserve-symlinks-main' }
  const args = ['dashboard', '--port', '0', '--store', await open(0)]
  const { code, err } = await sluice(args, { env, main: join(root, 'src/cli/main.ts') })
  expect({ code, err }).toEqual({ code: 1, err: expect.stringMatching(/^error dashboard\.missing: .*\n$/) as string })
})
