// Limiters on a Redis of several servers: a cluster whose slots move, a sentinel that promotes a replica, and an address
// that leads to another master. Real servers, in real time.
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect as connectTo, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Cluster, Redis } from 'ioredis'
import { createCluster } from 'redis'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createLimiter, limit, type Limiter, type LimiterOptions } from '../../src/exports/limiter.ts'
import { redisBackend } from '../../src/exports/redis.ts'
import { freePort, HAS_REDIS_SERVER, OwnRedis } from './own-redis.ts'

const api = limit('api', { rate: 200, per: '1s', burst: 20 })
const slots = limit('slots', { concurrency: 1 })
const run = promisify(execFile)
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
const cli = async (port: number, ...args: readonly string[]): Promise<string> =>
  (await run('redis-cli', ['-p', String(port), ...args])).stdout.trim()
/** A node of a cluster talks to the others at its port and 10,000. */
async function clusterPort(): Promise<number> {
  for (;;) {
    const port = await freePort()
    if (port < 55_000) return port
  }
}

/** Calls that never end, ten at a time. */
function load(options: Partial<LimiterOptions> & Pick<LimiterOptions, 'backend'>) {
  const limiter = createLimiter({ limits: [api, slots], ...options })
  const starts: number[] = []
  const errors: unknown[] = []
  const state = { ends: false }
  const work = async (): Promise<void> => {
    while (!state.ends)
      try {
        const permit = await limiter.acquire([api.key('hot')])
        starts.push(performance.now())
        await permit.release()
      } catch (error) {
        if (!state.ends) errors.push(error)
        return
      }
  }
  for (let i = 0; i < 10; i++) void work()
  const worst = (spanMs: number): number => {
    let from = 0
    let most = 0
    for (const [to, at] of starts.entries()) {
      while (at - (starts[from] ?? 0) >= spanMs) from++
      most = Math.max(most, to - from + 1)
    }
    return most
  }
  const end = (): void => {
    state.ends = true
  }
  return { limiter, starts, errors, worst, end }
}

describe.skipIf(!HAS_REDIS_SERVER)('a limiter on a cluster', () => {
  const nodes: OwnRedis[] = []
  const folder = mkdtempSync(join(tmpdir(), 'sluice-cluster-'))
  const open: Limiter[] = []

  beforeAll(async () => {
    for (let i = 0; i < 3; i++) {
      const port = await clusterPort()
      const args = ['--cluster-enabled', 'yes', '--cluster-config-file', join(folder, `${port}.conf`), '--dir', folder]
      nodes.push(await OwnRedis.start(args, port))
    }
    const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`)
    await run('redis-cli', ['--cluster', 'create', ...addresses, '--cluster-yes'])
    for (const { port } of nodes)
      while (!(await cli(port, 'cluster', 'info')).includes('cluster_state:ok')) await sleep(50)
  })
  afterEach(async () => {
    await Promise.all(open.splice(0).map((limiter) => limiter.close()))
  })
  afterAll(async () => {
    await Promise.all(nodes.map((node) => node.kill()))
    rmSync(folder, { recursive: true, force: true })
  })

  type Connected = { readonly backend: LimiterOptions['backend']; readonly end: () => Promise<void> }
  it.each<readonly [string, () => Promise<Connected>]>([
    [
      'its address',
      async () => ({ backend: `redis+cluster://127.0.0.1:${nodes[0]?.port}`, end: async () => undefined }),
    ],
    [
      'a cluster of the package redis',
      async () => {
        const cluster = createCluster({ rootNodes: [{ url: nodes[1]?.url ?? '' }] })
        await cluster.connect()
        return { backend: redisBackend(cluster, { namespace: 'two' }), end: async () => cluster.destroy() }
      },
    ],
    [
      'a cluster of ioredis',
      async () => {
        const cluster = new Cluster([{ host: '127.0.0.1', port: nodes[2]?.port ?? 0 }])
        return { backend: redisBackend(cluster, { namespace: 'three' }), end: async () => cluster.disconnect() }
      },
    ],
  ])('works over %s', async (_, connect) => {
    const { backend, end } = await connect()
    // Namespaces are in different slots, so some call has to find its node.
    for (const namespace of typeof backend === 'string' ? ['a', 'b', 'c', 'd'] : ['given']) {
      const limiter = createLimiter({ backend, namespace, limits: [api, slots] })
      open.push(limiter)
      const permit = await limiter.acquire([api.key('x'), slots])
      await expect(limiter.acquire([slots], { wait: false })).rejects.toMatchObject({ code: 'limit.rejected' })
      await permit.release()
      await limiter.penalize(api.key('y'), '10s')
      expect((await limiter.inspect(api.key('y'))).closedUntil).not.toBeNull()
      const { id } = await limiter.reserve([api.key('x')], { atMost: '1s' })
      expect((await limiter.confirm(id)).kind).toBe('go')
    }
    await end()
  })

  it('goes on while its slot moves to another node, and never exceeds its budget', async () => {
    const namespace = 'moving'
    const calls = load({ backend: `redis+cluster://127.0.0.1:${nodes[0]?.port}`, namespace })
    open.push(calls.limiter)
    await expect.poll(() => calls.starts.length).toBeGreaterThan(30)
    const port = nodes[0]?.port ?? 0
    const slot = await cli(port, 'cluster', 'keyslot', `{sluice:${namespace}}:policies`)
    const ids = await Promise.all(nodes.map((node) => cli(node.port, 'cluster', 'myid')))
    const counts = await Promise.all(nodes.map((node) => cli(node.port, 'cluster', 'countkeysinslot', slot)))
    const from = counts.findIndex((count) => Number(count) > 0)
    const to = (from + 1) % 3
    const [source, target] = [nodes[from]?.port ?? 0, nodes[to]?.port ?? 0]
    await cli(target, 'cluster', 'setslot', slot, 'importing', ids[from] ?? '')
    await cli(source, 'cluster', 'setslot', slot, 'migrating', ids[to] ?? '')
    await sleep(200)
    for (let keys = ['']; keys.length > 0;) {
      keys = (await cli(source, 'cluster', 'getkeysinslot', slot, '100')).split('\n').filter((key) => key !== '')
      if (keys.length > 0) await cli(source, 'migrate', '127.0.0.1', String(target), '', '0', '5000', 'keys', ...keys)
    }
    for (const each of [target, source]) await cli(each, 'cluster', 'setslot', slot, 'node', ids[to] ?? '')
    const movedMs = performance.now()
    await sleep(1500)
    calls.end()
    expect(calls.errors).toEqual([])
    expect(calls.starts.filter((at) => at > movedMs + 500).length).toBeGreaterThan(120)
    // A start may be seen up to 50 ms after its grant.
    expect(calls.worst(1000)).toBeLessThanOrEqual(20 + 200 + 10)
  })

  it('is refused with what to do where one node is named as if it were alone', async () => {
    const refused: string[] = []
    for (const namespace of ['a', 'b', 'c', 'd', 'e', 'f']) {
      const limiter = createLimiter({ backend: nodes[0]?.url ?? '', namespace, limits: [api] })
      open.push(limiter)
      await limiter.acquire([api]).catch((error: Error) => refused.push(error.message))
    }
    expect(refused.length).toBeGreaterThan(0)
    for (const message of refused) expect(message).toContain('redis+cluster://')
  })
})

describe.skipIf(!HAS_REDIS_SERVER)('a limiter whose master fails', () => {
  const ending: (() => unknown)[] = []
  afterEach(async () => {
    for (const end of ending.splice(0).reverse()) await end()
  })

  async function pair(): Promise<readonly [OwnRedis, OwnRedis]> {
    const master = await OwnRedis.start()
    const replica = await OwnRedis.start(['--replicaof', '127.0.0.1', String(master.port)])
    ending.push(
      () => master.kill(),
      () => replica.kill(),
    )
    await expect
      .poll(() => cli(replica.port, 'info', 'replication'), { interval: 50 })
      .toContain('master_link_status:up')
    return [master, replica]
  }

  it('goes on at the replica that a sentinel promotes; at most one burst more starts', async () => {
    const [master] = await pair()
    const folder = mkdtempSync(join(tmpdir(), 'sluice-sentinel-'))
    const file = join(folder, 'sentinel.conf')
    writeFileSync(
      file,
      `sentinel monitor main 127.0.0.1 ${master.port} 1\nsentinel down-after-milliseconds main 300\nsentinel failover-timeout main 2000\n`,
    )
    const port = await freePort()
    // The file comes first among the arguments of a sentinel.
    const sentinel = execFile('redis-server', [file, '--sentinel', '--port', String(port), '--bind', '127.0.0.1'])
    ending.push(() => rmSync(folder, { recursive: true, force: true }))
    ending.push(() => void sentinel.kill('SIGKILL'))
    await expect
      .poll(() => cli(port, 'sentinel', 'replicas', 'main').catch(() => ''), { interval: 100 })
      .toContain('slave')
    const calls = load({ backend: `redis+sentinel://127.0.0.1:${port}/main` })
    ending.push(() => calls.limiter.close())
    const ioredis = new Redis({ sentinels: [{ host: '127.0.0.1', port }], name: 'main', enableOfflineQueue: false })
    ioredis.on('error', () => undefined)
    ending.push(() => ioredis.disconnect())
    await expect.poll(() => ioredis.status).toBe('ready')
    const other = createLimiter({ backend: redisBackend(ioredis, { namespace: 'other' }), limits: [api] })
    ending.push(() => other.close())
    await other.acquire([api])
    await expect.poll(() => calls.starts.length).toBeGreaterThan(40)
    await master.kill()
    const killedMs = performance.now()
    await expect.poll(() => calls.starts.some((at) => at > killedMs + 400), { interval: 50 }).toBe(true)
    const backMs = calls.starts.find((at) => at > killedMs + 400) ?? 0
    await sleep(1000)
    calls.end()
    expect(calls.errors).toEqual([])
    expect(calls.starts.filter((at) => at >= backMs && at < backMs + 1000).length).toBeLessThanOrEqual(220 + 20 + 10)
    expect(calls.starts.filter((at) => at >= backMs && at < backMs + 1000).length).toBeGreaterThan(100)
    await other.acquire([api])
  })

  it('goes on where its address leads to a replica that was promoted in its place', async () => {
    const [master, replica] = await pair()
    const place = { port: master.port, sockets: new Set<Socket>() }
    const proxy = createServer((socket) => {
      const other = connectTo(place.port, '127.0.0.1')
      place.sockets.add(socket)
      socket.pipe(other).pipe(socket)
      for (const each of [socket, other]) each.on('error', () => [socket, other].forEach((end) => void end.destroy()))
    })
    const port = await freePort()
    await new Promise<void>((resolve) => void proxy.listen(port, '127.0.0.1', resolve))
    ending.push(() => {
      for (const socket of place.sockets) socket.destroy()
      proxy.close()
    })
    const calls = load({ backend: `redis://127.0.0.1:${port}` })
    ending.push(() => calls.limiter.close())
    await expect.poll(() => calls.starts.length).toBeGreaterThan(40)
    // The old connection stays open, to a server that takes no writes any more.
    place.port = replica.port
    await cli(replica.port, 'replicaof', 'no', 'one')
    await cli(master.port, 'replicaof', '127.0.0.1', String(replica.port))
    const movedMs = performance.now()
    await expect.poll(() => calls.starts.filter((at) => at > movedMs + 500).length).toBeGreaterThan(100)
    calls.end()
    expect(calls.errors).toEqual([])
    expect(calls.worst(1000)).toBeLessThanOrEqual(20 + 200 + 20 + 10)
  })
})
