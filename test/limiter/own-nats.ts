import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Kvm } from '@nats-io/kv'
import { connect } from '@nats-io/transport-node'
import { missing } from '../services.ts'
import { freePort } from './own-redis.ts'

/** Whether this machine has a nats-server for tests to start. */
export const HAS_NATS_SERVER: boolean =
  spawnSync('nats-server', ['--version']).status === 0 ||
  missing('there is no nats-server', 'failures of the limiter on NATS') !== null

/** A NATS server of a test's own, with JetStream unless it is to have none. */
export class OwnNats {
  readonly port: number
  readonly #folder = mkdtempSync(join(tmpdir(), 'sluice-nats-'))
  #process: ChildProcess | null = null

  readonly #jetStream: boolean

  private constructor(port: number, jetStream: boolean) {
    this.port = port
    this.#jetStream = jetStream
  }

  static async start({ jetStream = true }: { jetStream?: boolean } = {}): Promise<OwnNats> {
    const nats = new OwnNats(await freePort(), jetStream)
    await nats.start()
    return nats
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`
  }

  /** Starts it on the same port, with what it had. */
  async start(): Promise<void> {
    const jetStream = this.#jetStream ? ['--jetstream', '--store_dir', this.#folder] : []
    const args = ['--addr', '127.0.0.1', '--port', String(this.port), ...jetStream]
    this.#process = spawn('nats-server', args, { stdio: 'ignore' })
    const connection = await connect({
      port: this.port,
      waitOnFirstConnect: true,
      reconnectTimeWait: 20,
      maxReconnectAttempts: -1,
    })
    await connection.close()
  }

  /** Deletes the streams of all limits. */
  async forget(): Promise<void> {
    const connection = await connect({ port: this.port })
    const kvm = new Kvm(connection)
    for await (const { bucket } of kvm.list()) await (await kvm.open(bucket)).destroy()
    await connection.close()
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.#process?.kill(signal)
    if (signal === 'SIGCONT' || !this.#process) return
    // Its threads stop one after the other.
    const state = `/proc/${this.#process.pid}/stat`
    while (existsSync(state) && !readFileSync(state, 'utf8').includes(') T ')) continue
  }

  /** Kills it, and waits until it is gone. */
  async kill(): Promise<void> {
    const child = this.#process
    this.#process = null
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
  }

  /** Kills it, and removes what it had. */
  async end(): Promise<void> {
    await this.kill()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
