/** The door for the dashboard: a page and its API as one Fetch API handler. Needs hono and zod. */
import '../base/supported-node.ts'
export { createDashboard, type Dashboard, type DashboardOptions } from '../dashboard/dashboard.ts'
export type { Grant } from '../http/monitor/handler.ts'
