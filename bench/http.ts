// Measures jobs per second over HTTP: pushed, and fetched and acknowledged, from one connection and from fifty.
// BESIDE=<another build's dist/cli/main.js> measures that build too, in alternation.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { Client } from './http-client.ts'
import { measure, nowMs, type Numbers } from './measure.ts'

const ALONE = Number(process.env['ALONE'] ?? 2000)
const JOBS = Number(process.env['JOBS'] ?? 10_000)
const CONNECTIONS = 50
/** A server is asked so often before it is measured: its code is compiled by then. */
const WARM_UP = 4000
const MAIN = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url))
const BESIDE = process.env['BESIDE']

await measure('Over HTTP, durable (`npm run build` first)', async (path) => {
  const numbers: Record<string, number> = {}
  for (const [main, label] of [...(BESIDE ? [[BESIDE, 'beside: '] as const] : []), [MAIN, ''] as const])
    for (const [name, value] of Object.entries(await ofServer(main, `${path}-${label.length}`)))
      numbers[label + name] = value
  return numbers
})

async function ofServer(main: string, path: string): Promise<Numbers> {
  const child = spawn(
    process.execPath,
    [main, 'serve', '--store', process.env['STORE'] ?? `sqlite:${path}`, '--port', '0'],
    {
      stdio: ['ignore', 'pipe', 'ignore'],
      env: { ...process.env, SLUICE_LOG: 'error' },
    },
  )
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const port = Number(/http:.*:(\d+)/.exec(line.toString())?.[1])
  await atOnce(port, CONNECTIONS, WARM_UP, 'warm-up')
  const numbers = {
    ...(await atOnce(port, 1, ALONE, 'one connection')),
    ...(await atOnce(port, CONNECTIONS, JOBS, `${CONNECTIONS} connections`)),
  }
  child.kill()
  await once(child, 'exit')
  return numbers
}

async function atOnce(port: number, connections: number, jobs: number, from: string): Promise<Numbers> {
  const clients = Array.from({ length: connections }, () => new Client(port))
  const queue = from.replaceAll(/\W/g, '-')
  const rate = async (each: (client: Client) => Promise<unknown>): Promise<number> => {
    let left = jobs
    const startMs = nowMs()
    const one = async (client: Client): Promise<void> => {
      while (left-- > 0) await each(client)
    }
    await Promise.all(clients.map(one))
    return jobs / ((nowMs() - startMs) / 1000)
  }
  const pushed = await rate((client) => client.post('/ojs/v1/jobs', { type: 'noop', args: [1], options: { queue } }))
  const worked = await rate(async (client) => {
    const { jobs: got } = await client.post('/ojs/v1/workers/fetch', { queues: [queue], worker_id: 'w' })
    for (const { id } of got) await client.post('/ojs/v1/workers/ack', { job_id: id, worker_id: 'w' })
  })
  for (const client of clients) client.end()
  return { [`pushes/s, ${from}`]: pushed, [`fetch and ack, jobs/s, ${from}`]: worked }
}
