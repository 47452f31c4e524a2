// Slips of the keyboard, readers that leave, odd values: a command never ends with a
// stack trace.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { input, limit, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { onSqlite } from '../stores.ts'
import { sluice } from './terminal.ts'

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
    [['dashboard', '--port', '70000'], '--port is invalid'],
    [['dashboard', '--port', '1e3'], '--port is invalid'],
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

test('a dashboard at a port that is taken is refused in words', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const { port } = taken.address() as { port: number }
  const { code, err } = await sluice(['dashboard', '--port', String(port), '--store', await open(0)])
  taken.close()
  expect(code).toBeGreaterThan(0)
  expect(err).toMatch(/^error /)
  expect(err).toContain(String(port))
})
