// The workers of examples/ in other languages, against a server that refuses, goes away and comes back.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { getRequestListener } from '@hono/node-server'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { createHttpApp } from '../../src/exports/http.ts'
import { silentLogger, Sluice } from '../../src/exports/index.ts'
import { missing } from '../services.ts'

const EXAMPLES = join(import.meta.dirname, '../../examples')
const TOKEN = 'worker-0123456789abcdef'
const folder = mkdtempSync(join(tmpdir(), 'sluice-workers-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

interface Language {
  readonly name: string
  /** The command that starts the worker, before its arguments; null: this machine lacks the language. */
  readonly command: readonly string[] | null
}

function python(): Language {
  try {
    execFileSync('python3', ['--version'])
    return { name: 'Python', command: ['python3', join(EXAMPLES, 'python-worker.py')] }
  } catch {
    missing('no python3 is on this machine', 'the worker in Python')
    return { name: 'Python', command: null }
  }
}

function go(): Language {
  try {
    execFileSync('go', ['version'])
  } catch {
    missing('no go is on this machine', 'the worker in Go')
    return { name: 'Go', command: null }
  }
  const built = join(folder, 'go-worker')
  execFileSync('go', ['build', '-o', built, join(EXAMPLES, 'go-worker.go')])
  return { name: 'Go', command: [built] }
}

const LANGUAGES = [python(), go()].filter(({ command }) => command !== null)

/** A server whose door can be shut: `status` is what all are answered, null lets them in. */
class Door {
  status: number | null = null
  readonly sluice = new Sluice({ store: 'sqlite::memory:', tasks: [], queues: {}, logger: silentLogger })
  readonly #app = createHttpApp({
    sluice: this.sluice,
    tokens: [{ token: TOKEN, scopes: ['worker', 'admin'], tenant: '*' }],
  })
  readonly #listener = getRequestListener((request) => this.#app.fetch(request))
  #server = this.#make()
  #port = 0

  #make(): ReturnType<typeof createServer> {
    return createServer((request, response) => {
      if (this.status === null) return void this.#listener(request, response)
      response.writeHead(this.status, { 'Content-Type': 'application/json' }).end('{}')
      return undefined
    })
  }

  async open(): Promise<void> {
    await new Promise<void>((resolve) => void this.#server.listen(this.#port, '127.0.0.1', resolve))
    this.#port = (this.#server.address() as AddressInfo).port
  }

  /** New connections are refused, and existing ones are cut off. */
  async shut(): Promise<void> {
    const closed = new Promise<void>((resolve) => void this.#server.close(() => resolve()))
    this.#server.closeAllConnections()
    await closed
    this.#server = this.#make()
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  async push(type: string, arg: unknown): Promise<string> {
    const response = await this.#app.fetch(
      new Request('http://door/ojs/v1/jobs', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${TOKEN}` },
        body: JSON.stringify({ type, args: [arg], options: { queue: 'mail', retry: { max_attempts: 5 } } }),
      }),
    )
    return ((await response.json()) as { job: { id: string } }).job.id
  }

  async end(): Promise<void> {
    this.#app.close()
    await this.sluice.stop({ within: 0 })
    await this.shut()
  }
}

describe.each(LANGUAGES)('the worker in $name', ({ command }) => {
  const start = (door: Door): ChildProcess => {
    const [program, ...args] = command as [string, ...string[]]
    const child = spawn(program, [...args, door.url, 'mail'], {
      env: { ...process.env, SLUICE_TOKEN: TOKEN, LEASE_S: '1.5' },
      stdio: 'ignore',
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    return child
  }
  const atWork = async (): Promise<Door> => {
    const door = new Door()
    await door.open()
    onTestFinished(() => door.end())
    await door.sluice.start()
    return door
  }
  const job = async (door: Door, id: string): Promise<unknown[]> => {
    const found = await door.sluice.jobs.get(id)
    return [found?.state, found?.attempt]
  }

  test('lives through 401, 503 and refused connections, and fetches again', async () => {
    const door = await atWork()
    door.status = 401
    const child = start(door)
    const ended = new Promise((resolve) => child.once('exit', resolve))
    const first = await door.push('mail.send', 'a@acme.test')
    for (const status of [401, 503] as const) {
      door.status = status
      await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 700))])
    }
    await door.shut()
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 700))])
    door.status = null
    await door.open()
    await expect.poll(() => job(door, first)).toEqual(['completed', 1])
    expect(child.exitCode).toBeNull()
  })

  test('renews its lease while a handler takes longer, and says how it ended though the server refuses then', async () => {
    const door = await atWork()
    start(door)
    const slow = await door.push('mail.slow', 3.5)
    await expect.poll(() => job(door, slow)).toEqual(['completed', 1])
    const refused = await door.push('mail.slow', 0.6)
    await expect.poll(() => job(door, refused)).toEqual(['active', 1])
    door.status = 503
    await new Promise((resolve) => setTimeout(resolve, 900))
    door.status = null
    await expect.poll(() => job(door, refused)).toEqual(['completed', 1])
  })

  test('ends the job at hand at SIGTERM, then itself', async () => {
    const door = await atWork()
    const child = start(door)
    const id = await door.push('mail.slow', 0.8)
    await expect.poll(() => job(door, id)).toEqual(['active', 1])
    const code = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGTERM')
    expect(await code).toBe(0)
    expect(await job(door, id)).toEqual(['completed', 1])
  })

  test('says that it has no handler for a type, and goes on', async () => {
    const door = await atWork()
    start(door)
    const unknown = await door.push('mail.burn', 1)
    const known = await door.push('mail.send', 'b@acme.test')
    await expect.poll(() => job(door, known)).toEqual(['completed', 1])
    expect((await door.sluice.jobs.get(unknown))?.error?.message).toContain('no handler')
  })
})
