// The dashboard inside a Fastify app. Run it with: npm run build && npx node examples/dashboard-fastify.ts
import { getRequestListener } from '@hono/node-server'
import Fastify from 'fastify'
import type { AddressInfo } from 'node:net'
import { createDashboard } from '../src/exports/dashboard.ts'
import { Sluice } from '../src/exports/index.ts'
import { visit } from './visitors/dashboard.ts'

const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [] })
await sluice.start()
const dashboard = createDashboard({
  sluice,
  basePath: '/admin/jobs',
  // Who the application knows: null sees nothing, a reader looks, an operator changes things, too.
  authorize: (request) =>
    request.headers.get('cookie')?.includes('session=ada') ? { role: 'operator', name: 'ada' } : null,
})

const app = Fastify()
const listener = getRequestListener(dashboard.fetch)
// The dashboard reads bodies itself, and answers by itself.
app.removeAllContentTypeParsers()
app.addContentTypeParser('*', (_request, _body, done) => done(null))
for (const path of ['/admin/jobs', '/admin/jobs/*'])
  app.all(path, async (request, reply) => {
    reply.hijack()
    await listener(request.raw, reply.raw)
  })
await app.listen({ port: 0 })

await visit(`http://127.0.0.1:${(app.server.address() as AddressInfo).port}/admin/jobs`)

dashboard.close()
await app.close()
await sluice.stop()
