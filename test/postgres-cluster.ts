import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { setTimeout as pause } from 'node:timers/promises'
import { missing } from './services.ts'

const run = promisify(execFile)
const READY_WITHIN_MS = 30_000

/** How a server ends: `fast` rolls back and says goodbye, `immediate` crashes: the next start recovers from the log. */
export type Shutdown = 'fast' | 'immediate'

type Settings = Readonly<Record<string, string | number>>

/** Whom the server's processes and files belong to. */
interface Owner {
  readonly uid?: number
  readonly gid?: number
}

/** A PostgreSQL server for one test alone, which may end it at will. */
export class PostgresCluster {
  readonly #bin: string
  readonly #folder: string
  readonly #data: string
  readonly #owner: Owner
  readonly #port: number
  readonly #settings: Settings
  #server: ChildProcess | null = null

  private constructor(bin: string, folder: string, owner: Owner, port: number, settings: Settings) {
    this.#settings = settings
    this.#bin = bin
    this.#folder = folder
    this.#data = join(folder, 'data')
    this.#owner = owner
    this.#port = port
  }

  /** Whether PostgreSQL is installed, so that there can be such a server. @throws under `CI=true` where it is not */
  static installed(leftOut: string): boolean {
    return binaries() !== null || missing('PostgreSQL is not installed under /usr/lib/postgresql', leftOut) !== null
  }

  /** A new server with default settings but for these, ready; its maker removes it. */
  static async create(settings: Settings = {}): Promise<PostgresCluster> {
    const bin = binaries()
    if (bin === null) throw new Error('PostgreSQL is not installed under /usr/lib/postgresql')
    const owner = postgresOwner()
    const folder = mkdtempSync(join(tmpdir(), 'sluice-postgres-'))
    if (owner.uid !== undefined) chownSync(folder, owner.uid, owner.gid ?? owner.uid)
    await run(
      join(bin, 'initdb'),
      ['-D', join(folder, 'data'), '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-sync'],
      {
        ...owner,
        cwd: folder,
      },
    )
    const cluster = new PostgresCluster(bin, folder, owner, await freePort(), settings)
    await cluster.start()
    return cluster
  }

  /** Its database, over TCP. */
  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.#port}/postgres`
  }

  /** Starts it; answers once it lets connections in. */
  async start(): Promise<void> {
    const settings = {
      port: this.#port,
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      max_connections: 300,
      ...this.#settings,
    }
    const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    this.#server = spawn(join(this.#bin, 'postgres'), ['-D', this.#data, ...options], {
      ...this.#owner,
      cwd: this.#data,
      stdio: 'ignore',
    })
    const endMs = performance.now() + READY_WITHIN_MS
    while (!(await this.#isReady())) {
      if (performance.now() > endMs) throw new Error(`the server in ${this.#data} is not ready`)
      await pause(20)
    }
  }

  /** Ends it, with everybody's connections. */
  async stop(how: Shutdown): Promise<void> {
    const server = this.#server
    if (!server) return
    this.#server = null
    if (server.exitCode !== null || server.signalCode !== null) return
    const closed = once(server, 'exit')
    server.kill(how === 'fast' ? 'SIGINT' : 'SIGQUIT')
    await closed
  }

  /** Ends it and removes its files. */
  async remove(): Promise<void> {
    await this.stop('immediate')
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async restart(how: Shutdown): Promise<void> {
    await this.stop(how)
    await this.start()
  }

  async #isReady(): Promise<boolean> {
    try {
      await run(join(this.#bin, 'pg_isready'), ['-h', '127.0.0.1', '-p', String(this.#port), '-q'])
      return true
    } catch {
      return false
    }
  }
}

/** The newest installed version's. */
function binaries(): string | null {
  try {
    const versions = readdirSync('/usr/lib/postgresql').sort((a, b) => Number(b) - Number(a))
    return versions[0] === undefined ? null : join('/usr/lib/postgresql', versions[0], 'bin')
  } catch {
    return null
  }
}

/** Whom to run a server as: it refuses to run as root. */
export function postgresOwner(): Owner {
  return process.getuid?.() === 0 ? { uid: idOf('-u'), gid: idOf('-g') } : {}
}

function idOf(which: '-u' | '-g'): number {
  return Number(execFileSync('id', [which, 'postgres'], { encoding: 'utf8' }))
}

/** A port at which no server listens. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
