// A graph in JSON whose steps a worker in Python runs over HTTP. Run it with: npx node examples/graph-worker.ts
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import { getRequestListener } from '@hono/node-server'
import { input, limit, silentLogger, Sluice, task } from '../src/exports/index.ts'
import { graphFromJson } from '../src/exports/flows.ts'
import { createHttpApp } from '../src/exports/http.ts'

// Tasks without code here: their names, queue and limits. The worker in Python has the code.
const model = limit('model', { rate: 100, per: '1s' })
const outside = { queue: 'python', run: (): null => null }
const tasks = [
  task('git.diff', input<{ pr: number }>(), outside),
  task('llm.comment', input<{ file: string }>(), outside),
  task('review.post', input<{ comments: string[] }>(), outside),
]
const review = graphFromJson({
  name: 'code.review',
  steps: {
    diff: { task: 'git.diff', input: { pr: { $ref: 'input.pr' } } },
    comments: {
      task: 'llm.comment',
      after: ['diff'],
      each: 'diff.files',
      input: { file: { $ref: 'item' } },
      limits: [{ limit: 'model', by: 'input.tenant' }],
      retry: { attempts: 3 },
    },
    post: { task: 'review.post', after: ['comments'], input: { comments: { $ref: 'comments' } } },
  },
  output: { $ref: 'post' },
})

// This process leads the graph from step to step in the queue `default`, and serves no job of `python`.
const sluice = new Sluice({
  store: 'sqlite::memory:',
  tasks,
  workflows: [review],
  limits: [model],
  queues: { default: {} },
  logger: silentLogger,
})
await sluice.start()
const app = createHttpApp({ sluice })
const listener = getRequestListener((request) => app.fetch(request))
const server = createServer((request, response) => void listener(request, response))
await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
const address = server.address()
const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`

const worker = fileURLToPath(new URL('graph-worker.py', import.meta.url))
const python = spawn('python3', [worker, url, 'python', 'code.review', '{"pr": 17, "tenant": "acme"}'], {
  stdio: ['ignore', 'inherit', 'inherit'],
})
await once(python, 'exit')
const [flow] = await sluice.flows.list({ workflow: 'code.review' })
console.log(`the flow ${flow?.key ?? ''} ${flow?.state ?? 'is missing'}`)
process.exitCode = flow?.state === 'completed' ? 0 : 1

app.close()
await sluice.stop()
server.closeAllConnections()
server.close()
