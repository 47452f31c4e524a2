// The dashboard inside a Hono app. Run it with: npm run build && npx node examples/dashboard-hono.ts
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
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

const app = new Hono()
app.all('/admin/jobs', ({ req }) => dashboard.fetch(req.raw))
app.all('/admin/jobs/*', ({ req }) => dashboard.fetch(req.raw))
const server = serve({ fetch: app.fetch, port: 0 })
await new Promise((listens) => server.once('listening', listens))

await visit(`http://127.0.0.1:${(server.address() as AddressInfo).port}/admin/jobs`)

dashboard.close()
server.close()
await sluice.stop()
