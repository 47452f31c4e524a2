// Budgets in another language, over HTTP: a server, and a program in Python that asks it. Run it with: npx node
// examples/budgets-over-http.ts
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import { getRequestListener } from '@hono/node-server'
import { silentLogger, Sluice } from '../src/exports/index.ts'
import { createHttpApp } from '../src/exports/http.ts'

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [], queues: {}, logger: silentLogger })
await sluice.start()
const limits = { crm: { rate: 20, per: '1s', burst: 2 }, connections: { concurrency: 4 } } as const
const app = createHttpApp({ sluice, limits: { limits } })
const listener = getRequestListener((request) => app.fetch(request))
const server = createServer((request, response) => void listener(request, response))
await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
const address = server.address()
const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`

const script = fileURLToPath(new URL('budgets-over-http.py', import.meta.url))
const python = spawn('python3', [script, url, 'acme', '6'], { stdio: ['ignore', 'inherit', 'inherit'] })
const [status] = (await once(python, 'exit')) as [number]

app.close()
await sluice.stop()
server.closeAllConnections()
server.close()
if (status !== 0) throw new Error(`python ended with ${status}`)
