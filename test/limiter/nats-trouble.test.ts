// A real NATS server of the test's own: contention, restarts, and a stream that is gone, in real time.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Kvm } from '@nats-io/kv'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createLimiter, limit, type Limiter } from '../../src/exports/limiter.ts'
import { missing } from '../services.ts'
import { freePort } from './own-redis.ts'

const HAS_NATS_SERVER =
  spawnSync('nats-server', ['--version']).status === 0 ||
  missing('there is no nats-server', 'failures of the limiter on NATS') !== null
const api = limit('api', { rate: 200, per: '1s', burst: 20 })
const tenant = limit('tenant', { rate: 150, per: '1s', burst: 20 })
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

describe.skipIf(!HAS_NATS_SERVER)('a limiter on NATS', () => {
  let port = 0
  let server: ChildProcess
  let folder = ''
  const limiters: Limiter[] = []

  const start = async (): Promise<void> => {
    const args = ['--addr', '127.0.0.1', '--port', String(port), '--jetstream', '--store_dir', folder]
    server = spawn('nats-server', args, { stdio: 'ignore' })
    const connection = await connect({
      port,
      waitOnFirstConnect: true,
      reconnectTimeWait: 20,
      maxReconnectAttempts: -1,
    })
    await connection.close()
  }
  const stop = async (): Promise<void> => {
    const gone = once(server, 'exit')
    server.kill('SIGKILL')
    await gone
  }

  beforeEach(async () => {
    port = await freePort()
    folder = mkdtempSync(join(tmpdir(), 'sluice-nats-'))
    await start()
  })
  afterEach(async () => {
    await Promise.all(limiters.splice(0).map((limiter) => limiter.close()))
    await stop()
    rmSync(folder, { recursive: true, force: true })
  })

  function load(uses: (i: number) => Parameters<Limiter['acquire']>[0]) {
    const limiter = createLimiter({ backend: `nats://127.0.0.1:${port}`, limits: [api, tenant] })
    limiters.push(limiter)
    const state = { ends: false }
    const starts: number[] = []
    const told: string[] = []
    const errors: unknown[] = []
    limiter.on('rate_limit.backend_down', () => told.push('down'))
    limiter.on('rate_limit.backend_up', () => told.push('up'))
    const work = async (i: number): Promise<void> => {
      while (!state.ends) {
        try {
          await (await limiter.acquire(uses(i))).release()
          starts.push(Date.now())
        } catch (error) {
          if (!state.ends) errors.push(error)
          return
        }
      }
    }
    for (let i = 0; i < 10; i++) void work(i)
    const between = (fromMs: number, toMs: number): number => starts.filter((at) => at >= fromMs && at < toMs).length
    const ready = (): Promise<unknown> => expect.poll(() => starts.length).toBeGreaterThan(30)
    return { ready, told, errors, between, end: () => (state.ends = true) }
  }

  it('shares two buckets with others: no error surfaces, and no budget is exceeded', async () => {
    const loads = [0, 1, 2].map((each) => load((i) => [api, tenant.key((each + i) % 2)]))
    await Promise.all(loads.map(({ ready }) => ready()))
    const fromMs = Date.now()
    await sleep(3000)
    const started = loads.reduce((sum, { between }) => sum + between(fromMs, fromMs + 3000), 0)
    for (const { end } of loads) end()
    expect(loads.flatMap(({ errors }) => errors)).toEqual([])
    expect(started).toBeLessThanOrEqual(200 * 3 + 20 + 20)
    expect(started).toBeGreaterThan(200 * 3 * 0.6)
  })

  it('goes on when the server starts again, with the same buckets', async () => {
    const calls = load(() => [api])
    await calls.ready()
    await sleep(300)
    await stop()
    await sleep(1000)
    const backMs = Date.now()
    await start()
    await sleep(2500)
    calls.end()
    expect(calls.between(backMs - 700, backMs)).toBe(0)
    expect(calls.between(backMs + 1000, backMs + 2500)).toBeGreaterThan(200)
    expect(calls.told).toEqual(['down', 'up'])
    expect(calls.errors).toEqual([])
  })

  it('makes its stream again when that is gone: at most one burst more starts', async () => {
    const calls = load(() => [api])
    await calls.ready()
    await sleep(300)
    const connection: NatsConnection = await connect({ port })
    const goneMs = Date.now()
    const kv = await new Kvm(connection).open(`sluice_${Buffer.from('sluice').toString('base64url')}`)
    await kv.destroy()
    await sleep(2000)
    await connection.close()
    calls.end()
    const started = calls.between(goneMs, goneMs + 2000)
    expect(started).toBeGreaterThan(300)
    expect(started).toBeLessThanOrEqual(200 * 2 + 20 + 20)
    expect(calls.errors).toEqual([])
    expect(calls.told.length).toBeLessThanOrEqual(2)
  })
})
