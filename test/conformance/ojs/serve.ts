import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const MAIN = fileURLToPath(new URL('../../../src/cli/main.ts', import.meta.url))

/** A `sluice serve` in a process of its own. */
export interface Served {
  readonly url: string
  readonly child: ChildProcess
}

/** Starts a server and waits until it listens; it is killed when the test has finished. */
export async function serve(...flags: readonly string[]): Promise<Served> {
  const child = spawn(process.execPath, [MAIN, 'serve', ...flags], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, SLUICE_LOG: 'warn' },
  })
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
  let out = ''
  for await (const chunk of child.stdout) {
    out += String(chunk)
    const url = /^listening on (\S+)$/m.exec(out)?.[1]
    if (url !== undefined) return { url, child }
  }
  throw new Error(`the server did not start: ${said}`)
}
