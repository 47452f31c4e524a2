// `sluice serve` over HTTP, and a bare server on the same database as the floor: 50 connections of one client.
import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import { Client } from '../http-client.ts'
import { nowUs } from './engine.ts'
import type { Measure, Numbers } from './measurements.ts'
import { dropSchema } from './engines/schema.ts'

const CONNECTIONS = 50
const WARM_UP = 4000
const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))

/** Pushes per second, and fetched and acknowledged jobs per second. Needs `npm run build`. */
export function overHttp(store: 'sqlite' | 'postgres' | 'floor', main: string = MAIN): Measure {
  return async ({ servers, scale }) => {
    const url = new URL(servers.postgres)
    url.searchParams.set('schema', 'compare_http')
    const kept = store === 'postgres' ? url.toString() : `sqlite:${join(servers.folder, `http-${nowUs()}.db`)}`
    const child =
      store === 'floor'
        ? fork(join(import.meta.dirname, 'http-floor.ts'), [join(servers.folder, `floor-${nowUs()}.db`)], {
            execArgv: [],
            silent: true,
          })
        : spawn(process.execPath, [main, 'serve', '--store', kept, '--port', '0'], {
            stdio: ['ignore', 'pipe', 'inherit'],
            env: { ...process.env, SLUICE_LOG: 'error' },
          })
    const [line] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer]
    const port = Number(/http:.*:(\d+)/.exec(line.toString())?.[1])
    const jobs = Math.max(500, 10_000 * scale)
    await both(port, Math.max(500, WARM_UP * scale), 'warm')
    const numbers = await both(port, jobs, 'measured')
    child.kill()
    await once(child, 'exit')
    if (store === 'postgres') await dropSchema(servers.postgres, 'compare_http')
    return numbers
  }
}

async function both(port: number, jobs: number, queue: string): Promise<Numbers> {
  const clients = Array.from({ length: CONNECTIONS }, () => new Client(port))
  const rate = async (each: (client: Client) => Promise<unknown>): Promise<number> => {
    let left = jobs
    const startUs = nowUs()
    const one = async (client: Client): Promise<void> => {
      while (left-- > 0) await each(client)
    }
    await Promise.all(clients.map(one))
    return jobs / ((nowUs() - startUs) / 1e6)
  }
  const pushes = await rate((client) => client.post('/ojs/v1/jobs', { type: 'noop', args: [1], options: { queue } }))
  const worked = await rate(async (client) => {
    const { jobs: got } = await client.post('/ojs/v1/workers/fetch', { queues: [queue], worker_id: 'w' })
    for (const { id } of got) await client.post('/ojs/v1/workers/ack', { job_id: id, worker_id: 'w' })
  })
  for (const client of clients) client.end()
  return { 'pushes/s': pushes, 'worked/s': worked }
}
