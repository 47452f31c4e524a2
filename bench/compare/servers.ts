// The private servers of a run: PostgreSQL and Redis as they are set up by default, at free ports.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort, PostgresCluster } from '../../test/postgres-cluster.ts'

/** The servers, and a folder for files. */
export interface Servers {
  readonly postgres: string
  readonly redis: string
  readonly folder: string
  readonly end: () => Promise<void>
}

/** Starts both servers. Redis keeps nothing on disk, as it is measured without `appendonly`. */
export async function startServers(): Promise<Servers> {
  const folder = mkdtempSync(join(process.env['BENCH_DIR'] ?? tmpdir(), 'sluice-compare-'))
  const cluster = await PostgresCluster.create()
  const port = await freePort()
  const redis = spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder], {
    stdio: 'ignore',
  })
  await answering(redis, port)
  return {
    postgres: cluster.url,
    redis: `redis://127.0.0.1:${port}`,
    folder,
    async end() {
      const gone = once(redis, 'exit')
      redis.kill()
      await gone
      await cluster.remove()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function answering(server: ChildProcess, port: number): Promise<void> {
  for (let tries = 0; tries < 250; tries++) {
    if (server.exitCode !== null) throw new Error('redis-server ended at once; is it installed?')
    const socket = connect(port, '127.0.0.1')
    const isUp = await new Promise<boolean>((resolve) => {
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    })
    socket.destroy()
    if (isUp) return
    await sleep(20)
  }
  throw new Error('redis-server does not answer')
}
