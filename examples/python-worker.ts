// Workers in another language: an Open Job Spec server, and a worker in Python. Run it with: npx node examples/python-worker.ts
import { spawn } from 'node:child_process'
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import { getRequestListener } from '@hono/node-server'
import { input, limit, silentLogger, Sluice, task } from '../src/exports/index.ts'
import { createHttpApp } from '../src/exports/http.ts'

// A task without code here. Its limits apply to every worker that runs it.
const mailbox = limit('mailbox', { rate: 5, per: '1s' })
const sendMail = task('mail.send', input<string>(), {
  queue: 'mail',
  limits: [mailbox.by((to) => to.split('@')[1])],
  run: () => undefined,
})

// This process serves no queue: enqueued jobs wait for remote workers.
const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [sendMail], queues: {}, logger: silentLogger })
await sluice.start()
const app = createHttpApp({ sluice })
const listener = getRequestListener((request) => app.fetch(request))
const server = createServer((request, response) => void listener(request, response))
await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
const address = server.address()
const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`

const python = spawn('python3', [fileURLToPath(new URL('python-worker.py', import.meta.url)), url, 'mail'], {
  stdio: ['ignore', 'inherit', 'inherit'],
})
const jobs = await sendMail.enqueueMany(['a@acme.test', 'b@acme.test', 'c@birch.test'])
console.log('python answered', await Promise.all(jobs.map((job) => job.result({ timeout: '15s' }))))

python.kill()
app.close()
await sluice.stop()
server.closeAllConnections()
server.close()
