import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, connect as connectTo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { missing } from '../services.ts'

/** Whether this machine has a redis-server for tests to start. */
export const HAS_REDIS_SERVER: boolean =
  spawnSync('redis-server', ['--version']).status === 0 ||
  missing('there is no redis-server', 'failures of the limiter on Redis') !== null

/** A Redis of a test's own, which it may stop, starve and break. */
export class OwnRedis {
  readonly port: number
  readonly #more: readonly string[]
  #process: ChildProcess | null = null
  #folder = ''

  private constructor(port: number, more: readonly string[]) {
    this.port = port
    this.#more = more
  }

  /** @param more further arguments of the server */
  static async start(more: readonly string[] = [], port?: number): Promise<OwnRedis> {
    const redis = new OwnRedis(port ?? (await freePort()), more)
    await redis.start()
    return redis
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  /** Starts it, empty, on the same port. */
  async start(): Promise<void> {
    const args = ['--port', String(this.port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', ...this.#more]
    // A server reads a dump that lies in its folder, and a replica leaves one there.
    this.#folder = mkdtempSync(join(tmpdir(), 'sluice-redis-'))
    this.#process = spawn('redis-server', args, { stdio: 'ignore', cwd: this.#folder })
    while (!(await answers(this.port))) await new Promise((resolve) => setTimeout(resolve, 10))
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#process?.kill(signal)
  }

  /** Kills it, and waits until it is gone. */
  async kill(): Promise<void> {
    const child = this.#process
    this.#process = null
    if (!child) return
    if (child.exitCode === null && child.signalCode === null) {
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
    }
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address ? address.port : 0
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectTo({ host: '127.0.0.1', port })
    const end = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => {
      socket.write('PING\r\n')
    })
    socket.once('data', (data) => end(String(data).startsWith('+PONG')))
    socket.once('error', () => end(false))
  })
}
