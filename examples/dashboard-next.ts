// The dashboard as a route of Next. Run it with: npm run build && npx node examples/dashboard-next.ts
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

// In Next this file is app/admin/jobs/[[...path]]/route.ts. A route handler takes the request of the Fetch API, which is
// all that a dashboard needs; `export const runtime = 'nodejs'` keeps it off the edge.
export const GET: (request: Request) => Promise<Response> = dashboard.fetch
export { GET as DELETE, GET as PATCH, GET as POST, GET as PUT }

// Next calls the handler with each request, as here:
await visit('https://app.example/admin/jobs', GET)

dashboard.close()
await sluice.stop()
