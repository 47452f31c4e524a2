// `sluice serve` as a process: how it starts, how it fails to, and what it is told while it runs.
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const ADMIN = { name: 'root', token: 'admin-0123456789abc', scopes: ['admin'], tenant: '*' }
const bearer = (token: string): { headers: Record<string, string> } => ({
  headers: { Authorization: `Bearer ${token}` },
})

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'sluice-serve-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

function file(name: string, content: unknown, at: string = folder()): string {
  const path = join(at, name)
  // As a whole, as deployments replace files.
  writeFileSync(`${path}.new`, typeof content === 'string' ? content : JSON.stringify(content))
  renameSync(`${path}.new`, path)
  return path
}

interface Running {
  readonly child: ChildProcess
  readonly said: () => string
  readonly out: () => string
  /** Its exit code, once all that it said has been read. */
  readonly closed: Promise<number | null>
}

function run(flags: readonly string[], env: Record<string, string> = {}): Running {
  const hasStore = flags.includes('--store') || env['SLUICE_STORE'] !== undefined
  const all = ['serve', ...(hasStore ? [] : ['--store', 'sqlite::memory:']), ...flags]
  const child = spawn(process.execPath, [MAIN, ...all], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  })
  let said = ''
  let out = ''
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
  const closed = once(child, 'close').then(([code]) => code as number | null)
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await closed
  })
  return { child, said: () => said, out: () => out, closed }
}

async function listening(running: Running): Promise<string> {
  await expect.poll(running.out).toMatch(/^listening on /m)
  return /^listening on (\S+)$/m.exec(running.out())?.[1] as string
}

const config = (more: object): string => file('server.json', more)

describe('a start that fails ends the process with one line', () => {
  const cases: [string, () => string[], RegExp][] = [
    ['a store that does not answer', () => ['--store', 'postgres://u:s3cret@127.0.0.1:1/x'], /store\.io/],
    ['a file that cannot be', () => ['--store', 'sqlite:/nowhere/at/all.db'], /store\.io/],
  ]
  const wrong: [string, () => string[], RegExp][] = [
    ['an unknown member of the configuration', () => ['--config', config({ limit: {} })], /option\.invalid/],
    ['a limit that is none', () => ['--config', config({ limits: { c: { max: 1 } } })], /policy\.invalid/],
    ['the same token twice', () => ['--config', config({ tokens: [ADMIN, { ...ADMIN, name: 'x' }] })], /same token/],
    [
      'a token without a tenant',
      () => ['--config', config({ tokens: [{ ...ADMIN, tenant: undefined }] })],
      /tenant is missing/,
    ],
  ]
  test.each([...cases.map((each) => [...each, 1] as const), ...wrong.map((each) => [...each, 2] as const)])(
    '%s',
    async (_, flags, words, code) => {
      const running = run(['--port', '0', ...flags()])
      expect(await running.closed).toBe(code)
      const lines = running.said().trimEnd().split('\n')
      expect(lines.filter((line) => line.startsWith('error '))).toHaveLength(1)
      expect(lines.at(-1)).toMatch(words)
      expect(running.said()).not.toMatch(/s3cret|admin-0123456789abc|\n\s+at /)
    },
  )

  test.each([
    ['--store', /store\.url\.invalid/],
    ['--budgets', /limiter\.url\.invalid/],
  ])('a wrong %s', async (option, words) => {
    const running = run(['--port', '0', option, 'mysql://u:s3cret@host/x'])
    expect(await running.closed).toBe(2)
    expect(running.said()).toMatch(words)
    expect(running.said()).not.toMatch(/s3cret|\n\s+at /)
  })

  test('a wrong store of the environment', async () => {
    const running = run(['--port', '0'], { SLUICE_STORE: 'mysql://u:s3cret@host/x' })
    expect([await running.closed, running.said()]).toEqual([
      2,
      expect.stringMatching(/^error store\.url\.invalid: .*\n$/),
    ])
    expect(running.said()).not.toContain('s3cret')
  })

  test('a port that is taken', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    onTestFinished(() => void taken.close())
    const running = run(['--port', String((taken.address() as { port: number }).port)])
    expect(await running.closed).toBe(1)
    expect(running.said()).toMatch(/^error server\.listen: Cannot listen on .*\n$/m)
  })
})

test('a start that succeeds says nothing on standard error, neither of Node nor of V8', async () => {
  const running = run(['--port', '0', '--config', config({ tokens: [ADMIN] })], { SLUICE_LOG: 'error' })
  await listening(running)
  running.child.kill('SIGTERM')
  expect(await running.closed).toBe(0)
  expect(running.said()).toBe('')
})

describe('--check', () => {
  test('says that all is well, and serves nothing; the store need not be there yet', async () => {
    const path = join(folder(), 'new.db')
    const running = run(['--check', '--store', `sqlite:${path}`, '--config', config({ tokens: [ADMIN] })])
    expect(await running.closed).toBe(0)
    expect(running.out()).not.toContain('listening')
  })

  test.each([
    [{ tokens: [{ ...ADMIN, scopes: ['root'] }] }, 2],
    [{ types: { a: { limits: [{ limit: 'typo' }] } } }, 2],
  ])('%j ends with %d', async (json, code) => {
    expect(await run(['--check', '--config', config(json)]).closed).toBe(code)
  })
})

describe('tokens', () => {
  const token = 'reader-0123456789'
  const hash = `sha256:${createHash('sha256').update(token).digest('hex')}`
  const tokens = [{ name: 'r', hash, scopes: ['reader'], tenant: '*' }]

  test.each([
    ['SLUICE_TOKENS', () => JSON.stringify(tokens)],
    ['SLUICE_TOKENS_FILE', () => file('tokens.json', { tokens })],
  ])('of %s count, plain or as hashes', async (name, value) => {
    const url = await listening(run(['--port', '0'], { [name]: value() }))
    expect((await fetch(`${url}/ojs/v1/queues`)).status).toBe(401)
    expect((await fetch(`${url}/ojs/v1/queues`, bearer(token))).status).toBe(200)
  })

  test.each(['[]', 'no json', '{}'])('of a variable that holds %s leave no server open', async (value) => {
    const running = run(['--port', '0'], { SLUICE_TOKENS: value })
    expect(await running.closed).toBe(2)
  })
})

test('SIGHUP reloads tokens and limits; what cannot be leaves all as it was; each is on record', async () => {
  const at = folder()
  const limits = (max: number): object => ({ crm: { window: 'sliding', max, per: '1h' } })
  const path = file('server.json', { tokens: [ADMIN], limits: limits(1) }, at)
  const running = run(['--port', '0', '--config', path])
  const url = await listening(running)
  const next = { ...ADMIN, name: 'next', token: 'next-admin-0123456' }
  file('server.json', { tokens: [next], limits: limits(5) }, at)
  running.child.kill('SIGHUP')
  await expect.poll(async () => (await fetch(`${url}/ojs/v1/queues`, bearer(next.token))).status).toBe(200)
  expect((await fetch(`${url}/ojs/v1/queues`, bearer(ADMIN.token))).status).toBe(401)
  const limit = async (): Promise<unknown> =>
    ((await (await fetch(`${url}/ojs/v1/rate-limits/crm`, bearer(next.token))).json()) as { rate: { limit: number } })
      .rate.limit
  await expect.poll(limit).toBe(5)
  file('server.json', { tokens: [{ ...next, scopes: ['root'] }], limits: limits(9) }, at)
  running.child.kill('SIGHUP')
  await expect.poll(running.said).toContain('could not be read again')
  expect(await limit()).toBe(5)
  file('server.json', { limits: limits(9) }, at)
  running.child.kill('SIGHUP')
  await expect.poll(running.said).toContain('full access')
  expect((await fetch(`${url}/ojs/v1/queues`)).status).toBe(401)
  const audit = (await (await fetch(`${url}/ojs/v1/admin/audit`, bearer(next.token))).json()) as { items: object[] }
  expect(audit.items).toMatchObject([
    { token: 'SIGHUP', action: 'reload', asked: { removed: ['root'], changed: ['crm'] } },
  ])
  expect(running.said()).not.toMatch(/admin-0123456789abc|next-admin-0123456/)
})

test('told to stop, a server serves on for its drain delay while it says that it is not ready', async () => {
  const running = run(['--port', '0', '--drain-delay', '3s'])
  const url = await listening(running)
  running.child.kill('SIGTERM')
  const status = async (path: string): Promise<number> => (await fetch(`${url}${path}`)).status
  await expect.poll(() => status('/health/ready'), { interval: 20 }).toBe(503)
  expect(await status('/health/live')).toBe(200)
  expect(await status('/ojs/v1/queues')).toBe(200)
  expect(await running.closed).toBe(0)
})

test('SIGHUP while a server starts does not end it', async () => {
  const silent = createServer()
  silent.listen(0, '127.0.0.1')
  await once(silent, 'listening')
  onTestFinished(() => void silent.close())
  const { port } = silent.address() as AddressInfo
  const { child } = run(['--store', `postgres://app@127.0.0.1:${port}/app?sslmode=disable`])
  // The server starts: its store is being opened.
  const [socket] = (await once(silent, 'connection')) as [Socket]
  child.kill('SIGHUP')
  // A process that a signal ends does not answer the end of a connection any more.
  socket.end()
  expect(await once(child, 'exit')).toEqual([1, null])
})
