// `sluice serve --budgets`: the check and the start ask the backend, and a request that it refuses is answered at once.
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
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
/** The words of the check and of the start of a server about a backend. */
const both = async (url: string): Promise<unknown[]> => [
  await sluice(['serve', '--check', ...STORE, '--budgets', url]),
  await sluice(['serve', ...STORE, '--log', 'silent', '--budgets', url]),
]

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

  test('that is away fails the start, as a store does; one that stands still, within seconds', async () => {
    const { redis, at } = await server()
    const away = said('ECONNREFUSED')
    expect(await both(`redis://127.0.0.1:${await freePort()}`)).toEqual([away, away])
    redis.signal('SIGSTOP')
    const silent = said('no answer within')
    expect(await both(at('default:'))).toEqual([silent, silent])
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
    const config = join(folder(), 'server.json')
    writeFileSync(config, JSON.stringify({ limits: { crm: { rate: 1, per: '1s' } } }))
    const child = start('serve', ...STORE, '--budgets', at('default:'), '--config', config)
    let out = ''
    let log = ''
    child.stdout?.on('data', (chunk: Buffer) => (out += chunk.toString()))
    child.stderr?.on('data', (chunk: Buffer) => (log += chunk.toString()))
    await expect.poll(() => out).toMatch(/^listening on /m)
    const url = /^listening on (\S+)$/m.exec(out)?.[1]
    const acquire = (): Promise<Response> =>
      fetch(`${url}/limiter/v1/acquire`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ requests: [{ uses: [{ limit: 'crm' }] }] }),
      })
    expect((await acquire()).status).toBe(200)
    await tell('CONFIG', 'SET', 'requirepass', 'other')
    await tell('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await expect.poll(() => acquire().then(() => log)).toMatch(/NOAUTH|WRONGPASS/)
    const answer = (await (await acquire()).json()) as { error: unknown }
    expect(answer.error).toMatchObject({ code: 'backend_error', details: { reason: 'limiter.backend_down' } })
    child.kill('SIGTERM')
    await once(child, 'exit')
  })
})

describe.skipIf(!HAS_NATS_SERVER)('budgets on a NATS', () => {
  test('that is away: the check and the start say so', async () => {
    const away = said('connection refused')
    expect(await both(`nats://127.0.0.1:${await freePort()}`)).toEqual([away, away])
  })

  test('that answers passes the check; one that stands still does not', async () => {
    const nats = await OwnNats.start()
    onTestFinished(() => nats.end())
    const check = () => sluice(['serve', '--check', ...STORE, '--budgets', nats.url])
    expect(await check()).toMatchObject({ code: 0, err: '' })
    nats.signal('SIGSTOP')
    expect(await check()).toEqual(said('no answer'))
    nats.signal('SIGCONT')
  })
})

test('budgets on a store are checked as a store is', async () => {
  const check = (url: string) => sluice(['serve', '--check', ...STORE, '--budgets', url])
  expect(await check('sqlite:/nowhere/at/all.db')).toMatchObject({
    code: 1,
    err: expect.stringContaining('folder') as string,
  })
  const path = join(folder(), 'budgets.db')
  await emptyStore(`sqlite:${path}`)
  expect(await check(`sqlite:${path}`)).toMatchObject({ code: 0, err: '' })
})
