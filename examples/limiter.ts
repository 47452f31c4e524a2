// Budgets for plain code, without jobs: a limiter in memory before an API that counts. Run it with: npx node
// examples/limiter.ts
import { createServer } from 'node:http'
import { createLimiter, limit } from '../src/exports/limiter.ts'

// A partner that takes 10 calls in a window of 500 ms for each tenant, and refuses more.
const counts = new Map<string, number>()
const partner = createServer((request, response) => {
  const window = `${request.url} ${Math.floor(Date.now() / 500)}`
  const count = (counts.get(window) ?? 0) + 1
  counts.set(window, count)
  response.writeHead(count > 10 ? 429 : 200, { 'retry-after-ms': String(500 - (Date.now() % 500)) })
  response.end('{}')
})
await new Promise<void>((resolve) => partner.listen(0, resolve))
const address = partner.address()
const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`

const tenantCalls = limit('tenant', { window: 'sliding', max: 10, per: '500ms', guard: '20ms' })
const connections = limit('connections', { concurrency: 4 })
const limiter = createLimiter({ backend: 'memory:', limits: [tenantCalls, connections] })

// A drop-in fetch: each call takes a unit of its tenant and one of four connections.
const limitedFetch = limiter.fetch({
  uses: (request) => [tenantCalls.key(new URL(request.url).pathname.slice(1)), connections],
})
const replies = await Promise.all(
  ['acme', 'globex'].flatMap((tenant) => Array.from({ length: 25 }, () => limitedFetch(`${url}/${tenant}`))),
)
console.log(`50 calls of 2 tenants: ${replies.filter((reply) => reply.ok).length} came through`)

// By hand, with an answer at once: the budget of acme is used up.
try {
  for (;;) await limiter.acquire([tenantCalls.key('acme')], { wait: false })
} catch (error) {
  console.log((error as Error).message.replace(/: .*/, ''))
}

await limiter.close()
partner.close()
partner.closeAllConnections()
