// The API's answers correct the budget: a 429 closes the key, and its headers limit the other calls. Run it with: npx
// node examples/push-back.ts
import { createServer } from 'node:http'
import { input, limit, RateLimited, Sluice, task } from '../src/exports/index.ts'

// A partner that takes 5 calls in a window of 1 s, and reports it. Another client has used 3 of the first window.
let windowEndsMs = Date.now() + 1000
let used = 3
let refused = 0
const partner = createServer((_, response) => {
  if (Date.now() >= windowEndsMs) {
    windowEndsMs = Date.now() + 1000
    used = 0
  }
  const seconds = ((windowEndsMs - Date.now()) / 1000).toFixed(3)
  const over = ++used > 5
  if (over) refused++
  response.writeHead(over ? 429 : 200, {
    'x-ratelimit-remaining': String(Math.max(0, 5 - used)),
    'x-ratelimit-reset': seconds,
    ...(over && { 'retry-after-ms': String(Math.ceil(Number(seconds) * 1000)) }),
  })
  response.end('{}')
})
await new Promise<void>((resolve) => partner.listen(0, resolve))
const address = partner.address()
const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`

const api = limit('api', { window: 'sliding', max: 5, per: '1s', guard: '20ms', calibrate: 'headers' })

const call = task('partner.call', input<{ tenant: string }>(), {
  limits: [api.by(({ tenant }) => tenant)],
  retry: { attempts: 1 },
  async run(_, ctx) {
    const reply = await fetch(url, { signal: ctx.signal })
    ctx.observe(reply)
    if (reply.status === 429) throw RateLimited.from(reply)
    return reply.json()
  },
})

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [call], queues: { default: { concurrency: 1 } } })
sluice.on('rate_limit.dynamic_adjusted', ({ key, remaining, until }) => {
  console.log(`${key}: ${remaining === null ? 'closed' : `${remaining} left`} until ${until.toISOString()}`)
})
await sluice.start()
const jobs = await call.enqueueMany(Array.from({ length: 12 }, () => ({ tenant: 'acme' })))
await Promise.all(jobs.map((job) => job.result()))
console.log(`12 calls came through on their only attempt, ${refused} were refused on the way`)
await sluice.stop()
partner.close()
partner.closeAllConnections()
