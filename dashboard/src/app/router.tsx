import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
import { basePath } from './mount.ts'
import { NotFound, PageError } from './faults.tsx'
import { Shell } from './shell.tsx'

/** The filters of a page, as they stand in its URL: texts by name. */
export type Search = Record<string, string | undefined>

function searchOf(search: Record<string, unknown>): Search {
  return Object.fromEntries(
    Object.entries(search).flatMap(([name, value]) =>
      typeof value === 'string' && value !== '' ? [[name, value] as const] : [],
    ),
  )
}

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound })
const page = <const P extends string>(path: P, component: ReturnType<typeof lazyRouteComponent>) =>
  createRoute({ getParentRoute: () => root, path, component, validateSearch: searchOf })

const routes = root.addChildren([
  page(
    '/',
    lazyRouteComponent(() => import('../pages/overview.tsx'), 'OverviewPage'),
  ),
  page(
    '/limits',
    lazyRouteComponent(() => import('../pages/limits.tsx'), 'LimitsPage'),
  ),
  page(
    '/limits/$limit',
    lazyRouteComponent(() => import('../pages/limit.tsx'), 'LimitPage'),
  ),
  page(
    '/limits/$limit/keys/$key',
    lazyRouteComponent(() => import('../pages/limit-key.tsx'), 'LimitKeyPage'),
  ),
  page(
    '/jobs',
    lazyRouteComponent(() => import('../pages/jobs.tsx'), 'JobsPage'),
  ),
  page(
    '/jobs/$id',
    lazyRouteComponent(() => import('../pages/job.tsx'), 'JobPage'),
  ),
  page(
    '/flows',
    lazyRouteComponent(() => import('../pages/flows.tsx'), 'FlowsPage'),
  ),
  page(
    '/flows/$id',
    lazyRouteComponent(() => import('../pages/flow.tsx'), 'FlowPage'),
  ),
  page(
    '/queues',
    lazyRouteComponent(() => import('../pages/queues.tsx'), 'QueuesPage'),
  ),
  page(
    '/schedules',
    lazyRouteComponent(() => import('../pages/schedules.tsx'), 'SchedulesPage'),
  ),
  page(
    '/workers',
    lazyRouteComponent(() => import('../pages/workers.tsx'), 'WorkersPage'),
  ),
  page(
    '/tasks',
    lazyRouteComponent(() => import('../pages/tasks.tsx'), 'TasksPage'),
  ),
  page(
    '/bulk',
    lazyRouteComponent(() => import('../pages/bulks.tsx'), 'BulksPage'),
  ),
  page(
    '/audit',
    lazyRouteComponent(() => import('../pages/audit.tsx'), 'AuditPage'),
  ),
])

export const router = createRouter({
  routeTree: routes,
  basepath: basePath === '' ? '/' : basePath,
  defaultErrorComponent: PageError,
  defaultPreload: 'intent',
  scrollRestoration: true,
  // Plain texts instead of JSON: a filter reads the same in the URL and in the API.
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const text = new URLSearchParams(
      Object.entries(search).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
    ).toString()
    return text === '' ? '' : `?${text}`
  },
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
