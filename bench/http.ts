// How many jobs a second go over HTTP: pushed, and fetched and acknowledged, from one connection and from fifty?
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { fileURLToPath } from 'node:url'
import { measure, nowMs, type Numbers } from './measure.ts'

const ALONE = Number(process.env['ALONE'] ?? 1000)
const JOBS = Number(process.env['JOBS'] ?? 10_000)
const CONNECTIONS = 50
const MAIN = fileURLToPath(new URL('../dist/cli/main.js', import.meta.url))

await measure('Over HTTP, durable (`npm run build` first)', async (path) => {
  const child = spawn(process.execPath, [MAIN, 'serve', '--store', `sqlite:${path}`, '--port', '0'], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, SLUICE_LOG: 'error' },
  })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const url = /http:\S+/.exec(line.toString())?.[0] ?? ''
  const numbers: Record<string, number> = {}
  for (const connections of [1, CONNECTIONS]) Object.assign(numbers, await atOnce(url, connections))
  child.kill()
  await once(child, 'exit')
  return numbers
})

async function atOnce(url: string, connections: number): Promise<Numbers> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const jobs = connections === 1 ? ALONE : JOBS
  const post = (path: string, body: object): Promise<{ jobs: { id: string }[] }> => send(agent, url + path, body)
  const rate = async (each: () => Promise<unknown>): Promise<number> => {
    let left = jobs
    const startMs = nowMs()
    const one = async (): Promise<void> => {
      while (left-- > 0) await each()
    }
    await Promise.all(Array.from({ length: connections }, one))
    return jobs / ((nowMs() - startMs) / 1000)
  }
  const queue = `q${connections}`
  const pushed = await rate(() => post('/ojs/v1/jobs', { type: 'noop', args: [1], options: { queue } }))
  const worked = await rate(async () => {
    const { jobs: got } = await post('/ojs/v1/workers/fetch', { queues: [queue], worker_id: 'w' })
    for (const { id } of got) await post('/ojs/v1/workers/ack', { job_id: id, worker_id: 'w' })
  })
  agent.destroy()
  const from = connections === 1 ? 'one connection' : `${connections} connections`
  return { [`pushes/s, ${from}`]: pushed, [`fetch and ack, jobs/s, ${from}`]: worked }
}

function send<T>(agent: Agent, url: string, body: object): Promise<T> {
  return new Promise((resolve, reject) => {
    const text = JSON.stringify(body)
    const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }
    const sent = request(url, { method: 'POST', agent, headers }, (response) => {
      let answer = ''
      response.on('data', (chunk: Buffer) => (answer += chunk.toString()))
      response.on('end', () => resolve(JSON.parse(answer) as T))
    })
    sent.on('error', reject)
    sent.end(text)
  })
}
