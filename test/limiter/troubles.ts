// Every kind of trouble that a server of a test's own may get into, and load for it.
import { OwnNats } from './own-nats.ts'
import { OwnRedis } from './own-redis.ts'
import { connect } from './redis-server.ts'

/** A server that gets into trouble. */
export class Troubled<Server extends OwnRedis | OwnNats> {
  server: Server
  /** When it had gone away. */
  awayMs: number = Infinity
  /** Just before it came back. */
  backMs: number = -Infinity
  /** How long it stays away, where the test decides that. */
  lasts: () => Promise<unknown> = () => sleep(AWAY_MS)

  constructor(server: Server) {
    this.server = server
  }

  /** Has gone, and stays away as long as the test wants. */
  async away(): Promise<void> {
    this.awayMs = Date.now()
    await this.lasts()
    this.backMs = Date.now()
  }

  async end(): Promise<void> {
    this.server.signal('SIGCONT')
    await this.server.kill()
    if (this.server instanceof OwnNats) await this.server.end()
  }
}

/**
 * One kind of trouble. `isAway`: the server answers no one for a while. `forgets`: it loses the limits. `happen` resolves
 * when it is back.
 */
export interface Trouble<Server extends OwnRedis | OwnNats> {
  readonly name: string
  readonly isAway: boolean
  readonly forgets?: boolean
  readonly happen: (troubled: Troubled<Server>) => Promise<void>
}

/** How long a server is away at least: twice as long as a process needs to call it down. */
const AWAY_MS = 1500
/** How long it is paused: nothing ends that before its time. */
const PAUSED_MS = 5000

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

async function command({ server }: Troubled<OwnRedis>, ...args: string[]): Promise<void> {
  const admin = await connect(server.url)
  await admin.sendCommand(args)
  await admin.close()
}

async function stopped(troubled: Troubled<OwnRedis | OwnNats>): Promise<void> {
  troubled.server.signal('SIGSTOP')
  await troubled.away()
  troubled.server.signal('SIGCONT')
}

async function restarted(troubled: Troubled<OwnRedis | OwnNats>): Promise<void> {
  await troubled.server.kill()
  await troubled.away()
  await troubled.server.start()
}

/** Those of a Redis. */
export const REDIS_TROUBLES: readonly Trouble<OwnRedis>[] = [
  {
    name: 'is paused by CLIENT PAUSE',
    isAway: true,
    async happen(redis) {
      const backMs = Date.now() + PAUSED_MS
      await command(redis, 'CLIENT', 'PAUSE', String(PAUSED_MS), 'ALL')
      await redis.away()
      redis.backMs = backMs
      await sleep(backMs - Date.now())
    },
  },
  { name: 'is stopped', isAway: true, happen: stopped },
  { name: 'restarts, empty, on the same port', isAway: true, forgets: true, happen: restarted },
  {
    name: 'dies, and a replica is promoted in its place',
    isAway: true,
    async happen(redis) {
      const replica = await OwnRedis.start(['--replicaof', '127.0.0.1', String(redis.server.port)])
      const promoted = await connect(replica.url)
      const state = async (): Promise<string> => String(await promoted.sendCommand(['INFO', 'replication']))
      while (!(await state()).includes('master_link_status:up')) await sleep(20)
      await redis.server.kill()
      await redis.away()
      await promoted.sendCommand(['REPLICAOF', 'NO', 'ONE'])
      await promoted.sendCommand(['CONFIG', 'SET', 'port', String(redis.server.port)])
      await promoted.close()
      redis.server = replica
    },
  },
  {
    name: 'has no memory left',
    isAway: true,
    async happen(redis) {
      await command(redis, 'CONFIG', 'SET', 'maxmemory', '1')
      await redis.away()
      await command(redis, 'CONFIG', 'SET', 'maxmemory', '0')
    },
  },
  {
    name: 'forgets its scripts, again and again',
    isAway: false,
    async happen(redis) {
      for (let n = 0; n < 5; n++) {
        await command(redis, 'SCRIPT', 'FLUSH')
        await sleep(200)
      }
    },
  },
  { name: 'forgets all', isAway: false, forgets: true, happen: (redis) => command(redis, 'FLUSHALL') },
  {
    name: 'ends the connections of its clients every 100 ms',
    isAway: false,
    async happen(redis) {
      for (let n = 0; n < 15; n++) {
        await command(redis, 'CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
        await sleep(100)
      }
    },
  },
]

/** Those of a NATS server. */
export const NATS_TROUBLES: readonly Trouble<OwnNats>[] = [
  { name: 'is stopped', isAway: true, happen: stopped },
  { name: 'restarts on the same port', isAway: true, happen: restarted },
  { name: 'loses the stream of its limits', isAway: false, forgets: true, happen: ({ server }) => server.forget() },
]
