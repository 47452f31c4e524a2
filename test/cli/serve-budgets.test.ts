// `sluice serve --budgets`: the check and the start ask the backend, and a request that it refuses is answered at once.
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { HAS_NATS_SERVER, OwnNats } from '../limiter/own-nats.ts'
import { freePort, HAS_REDIS_SERVER, OwnRedis } from '../limiter/own-redis.ts'
import { connect } from '../limiter/redis-server.ts'
import { emptyStore, folder, sluice, start } from './terminal.ts'

const STORE = ['--port', '0', '--store', 'sqlite::memory:']
const said = (words: string): object => ({
  code: 1,
  out: '',
  err: expect.stringMatching(new RegExp(`^error limiter\\.backend_down: .*${words}.*\\n$`)) as string,
})
const acquire = (url: string): Promise<Response> =>
  fetch(`${url}/limiter/v1/acquire`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ requests: [{ uses: [{ limit: 'crm' }] }] }),
  })
/** The words of the check and of the start of a server about a backend. */
const both = async (url: string): Promise<unknown[]> => [
  await sluice(['serve', '--check', ...STORE, '--budgets', url]),
  await sluice(['serve', ...STORE, '--log', 'silent', '--budgets', url]),
]

const check = (url: string) => sluice(['serve', '--check', ...STORE, '--budgets', url])

/** A server with the limit crm, stopped when the test has finished; its URL, and its log so far. */
async function serving(budgets: string): Promise<{ url: string; log: () => string }> {
  const config = join(folder(), 'server.json')
  writeFileSync(config, JSON.stringify({ limits: { crm: { rate: 1000, per: '1s' } } }))
  const child = start('serve', ...STORE, '--budgets', budgets, '--config', config)
  onTestFinished(async () => {
    child.kill('SIGTERM')
    if (child.exitCode === null) await once(child, 'exit')
  })
  let out = ''
  let log = ''
  child.stdout?.on('data', (chunk: Buffer) => (out += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (log += chunk.toString()))
  await expect.poll(() => out + log).toMatch(/^listening on /m)
  return { url: /^listening on (\S+)$/m.exec(out)?.[1] ?? '', log: () => log }
}

describe.skipIf(!HAS_REDIS_SERVER)('budgets on a Redis', () => {
  async function server() {
    const redis = await OwnRedis.start()
    onTestFinished(() => redis.kill())
    const client = await connect(redis.url)
    onTestFinished(() => client.close())
    const at = (login: string, database = ''): string => redis.url.replace('//', `//${login}@`) + database
    return { redis, at, tell: (...args: string[]) => client.sendCommand(args) }
  }

  test('that refuses: the check and the start say why, without the password', async () => {
    const { at, tell } = await server()
    await tell('ACL', 'SETUSER', 'reader', 'on', '>s3cret', '~*', '+@read', '+@connection')
    const refused = [
      ...(await both(at('reader:wr0ng'))),
      ...(await both(at('reader:s3cret'))),
      ...(await both(at('default:', '/99'))),
    ]
    const [password, right, database] = [said('WRONGPASS'), said('NOPERM'), said('DB index is out of range')]
    expect(refused).toEqual([password, password, right, right, database, database])
    expect(JSON.stringify(refused)).not.toMatch(/s3cret|wr0ng/)
  })

  test('that is away, or stands still, fails the check; the start goes on without it', async () => {
    const { redis, at } = await server()
    expect(await check(`redis://127.0.0.1:${await freePort()}`)).toEqual(said('ECONNREFUSED'))
    redis.signal('SIGSTOP')
    expect(await check(at('default:'))).toEqual(said('no answer within'))
    const { url, log } = await serving(at('default:'))
    redis.signal('SIGCONT')
    expect(log()).toMatch(/"level":40.*limiter\.backend_down.*no answer within/)
    await expect.poll(() => acquire(url).then(({ status }) => status)).toBe(200)
  })

  test('that is away at the start: one warning, jobs go on, and budgets once it is there', async () => {
    const port = await freePort()
    const { url, log } = await serving(`redis://default:s3cret@127.0.0.1:${port}`)
    const warnings = log()
      .split('\n')
      .filter((line) => line.includes('"level":40'))
    expect(warnings).toEqual([expect.stringMatching(/limiter\.backend_down.*ECONNREFUSED.*serves without it/)])
    expect(log()).not.toContain('s3cret')
    const push = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"type":"a","args":[]}' }
    expect((await fetch(`${url}/ojs/v1/jobs`, push)).status).toBe(201)
    expect((await fetch(`${url}/health/ready`)).status).toBe(200)
    expect((await acquire(url)).status).toBe(503)
    const redis = await OwnRedis.start([], port)
    onTestFinished(() => redis.kill())
    await expect.poll(() => acquire(url).then(({ status }) => status)).toBe(200)
  })

  test.each([
    ['redis+sentinel', '/mymaster', 'no sentinel answers there, but a Redis\\. .* redis://host:6379'],
    ['redis+cluster', '', 'no part of a cluster\\. Name it as redis://host:6379'],
  ])('that is not what %s names ends both at once', async (scheme, path, words) => {
    const { redis } = await server()
    const refused = said(`The address of the limiter is wrong: .*${words}`)
    const url = redis.url.replace('redis', scheme) + path
    expect(await both(url)).toEqual([refused, refused])
  })

  test('without TLS behind rediss, and with it behind redis: the check says what was expected', async () => {
    const { redis } = await server()
    expect(await check(redis.url.replace('redis', 'rediss'))).toEqual(said('rediss needs a port with TLS'))
    // It has not read what came, so the client may see an end or a reset: here the reset.
    const closing = createServer((socket) => void socket.resetAndDestroy())
    await new Promise<void>((resolve) => closing.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void closing.close())
    const { port } = closing.address() as AddressInfo
    expect(await check(`redis://127.0.0.1:${port}`)).toEqual(said('One with TLS does so'))
  })

  test('another server in its place ends both', async () => {
    const other = createServer((socket) => socket.on('error', () => undefined).end('SSH-2.0-x\r\n'))
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void other.close())
    const { port } = other.address() as AddressInfo
    const refused = said('Unknown RESP type')
    expect(await both(`redis://127.0.0.1:${port}`)).toEqual([refused, refused])
  })

  test('that answers passes the check', async () => {
    const { at } = await server()
    expect(await sluice(['serve', '--check', ...STORE, '--budgets', at('default:')])).toMatchObject({
      code: 0,
      err: '',
    })
  })

  test('whose password changes later: a request is answered at once, with a code, and the log says why', async () => {
    const { at, tell } = await server()
    const { url, log } = await serving(at('default:'))
    expect((await acquire(url)).status).toBe(200)
    await tell('CONFIG', 'SET', 'requirepass', 'other')
    await tell('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await expect.poll(() => acquire(url).then(log)).toMatch(/NOAUTH|WRONGPASS/)
    const answer = (await (await acquire(url)).json()) as { error: unknown }
    expect(answer.error).toMatchObject({ code: 'backend_error', details: { reason: 'limiter.backend_down' } })
  })
})

describe.skipIf(!HAS_NATS_SERVER)('budgets on a NATS', () => {
  test('that is away: the check says so; the start goes on without it', async () => {
    const url = `nats://127.0.0.1:${await freePort()}`
    expect(await check(url)).toEqual(said('connection refused'))
    expect((await serving(url)).log()).toMatch(/limiter\.backend_down.*connection refused/)
  })

  test('that has no JetStream, or refuses the user, ends both', async () => {
    const nats = await OwnNats.start({ jetStream: false })
    onTestFinished(() => nats.end())
    const refused = said('jetstream is not enabled')
    expect(await both(nats.url)).toEqual([refused, refused])
  })

  test('that answers passes the check; one that stands still does not', async () => {
    const nats = await OwnNats.start()
    onTestFinished(() => nats.end())
    expect(await check(nats.url)).toMatchObject({ code: 0, err: '' })
    nats.signal('SIGSTOP')
    expect(await check(nats.url)).toEqual(said('no answer'))
    nats.signal('SIGCONT')
  })
})

test('budgets on a store are checked as a store is', async () => {
  expect(await check('sqlite:/nowhere/at/all.db')).toMatchObject({
    code: 1,
    err: expect.stringContaining('folder') as string,
  })
  const path = join(folder(), 'budgets.db')
  await emptyStore(`sqlite:${path}`)
  expect(await check(`sqlite:${path}`)).toMatchObject({ code: 0, err: '' })
})
