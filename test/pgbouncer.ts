import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import { freePort, postgresOwner } from './postgres-cluster.ts'
import { missing } from './services.ts'

const READY_WITHIN_MS = 10_000

/** Whether pgBouncer is installed. @throws under `CI=true` where it is not */
export function hasPgBouncer(leftOut: string): boolean {
  try {
    execFileSync('pgbouncer', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return missing('pgbouncer is not installed', leftOut) !== null
  }
}

/** A pgBouncer before a server, over so many connections to it; gone when the test has finished. Answers its URL. */
export async function throughPgBouncer(
  server: string,
  connections: number,
  mode: 'transaction' | 'statement' | 'session' = 'transaction',
): Promise<string> {
  const { hostname, port, pathname, username } = new URL(server)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-pgbouncer-'))
  const own = await freePort()
  const settings = {
    listen_addr: '127.0.0.1',
    listen_port: own,
    unix_socket_dir: '',
    auth_type: 'trust',
    auth_file: join(folder, 'users'),
    pool_mode: mode,
    default_pool_size: connections,
    max_client_conn: 200,
  }
  writeFileSync(join(folder, 'users'), `"${username}" ""\n`)
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`)
  const databases = `[databases]\n${pathname.slice(1)} = host=${hostname} port=${port}\n`
  writeFileSync(join(folder, 'pgbouncer.ini'), `${databases}[pgbouncer]\n${lines.join('\n')}\n`)
  // It refuses to run as root, as the server does.
  const owner = postgresOwner()
  if (owner.uid !== undefined) chownSync(folder, owner.uid, owner.gid ?? owner.uid)
  const bouncer = spawn('pgbouncer', ['-q', join(folder, 'pgbouncer.ini')], { ...owner, cwd: folder, stdio: 'ignore' })
  onTestFinished(async () => {
    await end(bouncer)
    rmSync(folder, { recursive: true, force: true })
  })
  const endMs = performance.now() + READY_WITHIN_MS
  while (!(await answers(own))) {
    if (performance.now() > endMs) throw new Error('pgbouncer is not ready')
    await pause(20)
  }
  return `postgres://${username}@127.0.0.1:${own}${pathname}`
}

async function end(bouncer: ChildProcess): Promise<void> {
  if (bouncer.exitCode !== null || bouncer.signalCode !== null) return
  const ended = once(bouncer, 'exit')
  bouncer.kill('SIGTERM')
  await ended
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: '127.0.0.1', port })
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
