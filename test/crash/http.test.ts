// A hundred workers over HTTP, whose processes are killed, as the server's is: budgets and leases hold all the same.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { serve, type Served } from '../conformance/ojs/serve.ts'
import { everyStore } from '../stores.ts'

const WORKER = fileURLToPath(new URL('fixtures/http-worker.ts', import.meta.url))
const KEYS = ['a', 'b', 'c', 'd']
const JOBS_PER_KEY = 50
const MAX_PER_SECOND = 5
const LEASE_MS = 3000

interface Start {
  readonly kind: 'start'
  readonly id: string
  readonly key: string
  readonly at: string
  readonly attempt: number
  readonly worker: string
}
interface Ack {
  readonly kind: 'ack'
  readonly id: string
  readonly status: number
}

const KINDS = await everyStore('a server and its workers, killed')

test.each(KINDS)(
  '100 workers on $name, kill -9 of workers and of the server: budgets, leases and jobs are kept',
  async (kind) => {
    const starts: Start[] = []
    const acks: Ack[] = []
    const store = kind.vacant()
    const folder = mkdtempSync(join(tmpdir(), 'sluice-crash-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const config = join(folder, 'config.json')
    writeFileSync(config, JSON.stringify({ limits: { gate: { window: 'sliding', max: MAX_PER_SECOND, per: '1s' } } }))
    let server = await serve('--store', store, '--port', '0', '--config', config)
    // On PostgreSQL half of the workers have a server of their own, which lives.
    const other = kind.name === 'postgres' ? await serve('--store', store, '--port', '0', '--config', config) : null
    const port = new URL(server.url).port
    const restart = async (): Promise<Served> => {
      server.child.kill('SIGKILL')
      await once(server.child, 'exit')
      server = await serve('--store', store, '--port', port, '--config', config)
      return server
    }
    const jobs = KEYS.flatMap((key) =>
      Array.from({ length: JOBS_PER_KEY }, () => ({
        type: 'mail.send',
        args: [key],
        options: { queue: 'mail', retry: { max_attempts: 50 }, rate_limit: { x_limit: { name: 'gate', key } } },
      })),
    )
    expect((await send(server, 'POST', '/ojs/v1/jobs/batch', { jobs })).status).toBe(201)
    let born = 0
    const worker = (): ChildProcess => {
      const child = spawn(
        process.execPath,
        [WORKER, (born % 2 === 1 && other ? other : server).url, `w${born++}`, '25', String(LEASE_MS)],
        {
          stdio: ['ignore', 'pipe', 'inherit'],
        },
      )
      onTestFinished(() => void child.kill('SIGKILL'))
      createInterface({ input: child.stdout }).on('line', (line) => {
        const said = JSON.parse(line) as Start | Ack | { readonly kind: 'ready' }
        if (said.kind === 'start') starts.push(said)
        if (said.kind === 'ack') acks.push(said)
      })
      return child
    }
    const fleet = Array.from({ length: 4 }, worker)
    const killOne = (): void => {
      fleet.shift()?.kill('SIGKILL')
      fleet.push(worker())
    }
    await until(() => starts.length >= 20)
    killOne()
    await until(() => starts.length >= 60)
    await restart()
    await until(() => starts.length >= 100)
    killOne()
    await restart()
    await until(() => starts.length >= 140)
    killOne()
    await until(async () => (await counts(server)).completed >= jobs.length)

    for (const key of KEYS)
      expect(widest(starts.filter((start) => start.key === key))).toBeLessThanOrEqual(MAX_PER_SECOND)
    for (const runs of Map.groupBy(starts, (start) => start.id).values())
      for (const [i, run] of runs.entries()) {
        const before = runs[i - 1]
        // No worker ended the run before: its lease had to, and each run is reported as another attempt.
        if (before) expect(Date.parse(run.at) - Date.parse(before.at)).toBeGreaterThanOrEqual(LEASE_MS - 1)
        if (before) expect(run.attempt).toBeGreaterThan(before.attempt)
      }
    const counted = Map.groupBy(
      acks.filter((ack) => ack.status === 200),
      (ack) => ack.id,
    )
    expect([...counted.values()].every((same) => same.length === 1)).toBe(true)
    expect(new Set(starts.map((start) => start.id)).size).toBe(jobs.length)
  },
)

async function send(
  { url }: Served,
  method: string,
  path: string,
  body?: object,
): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { 'Content-Type': 'application/openjobspec+json' },
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: await response.json() }
}

async function counts(server: Served): Promise<{ completed: number }> {
  return (await send(server, 'GET', '/ojs/v1/queues/mail/stats')).body as { completed: number }
}

/** The most starts in any second, by the server's clock. */
function widest(of: readonly Start[]): number {
  const times = of.map(({ at }) => Date.parse(at)).sort((a, b) => a - b)
  // Times are told in whole ms, so two that are told 999 ms apart may lie a whole second apart.
  return Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + 999).length))
}

/** Real processes take the time that they take: this only bounds it. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(20)
}
