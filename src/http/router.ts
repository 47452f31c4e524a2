import { Hono } from 'hono'
import type { Handler } from './handler.ts'
import type { Operation } from './operation.ts'

/** Finds the operation of a request. */
export type Router = (request: Request) => Promise<Response>

/** Makes the router of these operations. @param basePath what stands before each path; empty: nothing */
export function routerOf(handler: Handler, operations: readonly Operation[], basePath = ''): Router {
  const app = new Hono().basePath(basePath)
  const methods = [...new Set(operations.map((each) => each.method))]
  for (const each of operations) app.on(each.method, each.path, ({ req }) => handler.handle(req.raw, each, req.param()))
  app.notFound(({ req }) => {
    const served = methods.filter((method) => app.router.match(method, req.path)[0].length > 0)
    return handler.elsewhere(req.raw, req.path, served)
  })
  const fixed = fixedPaths(operations, basePath)
  return async (request) => {
    const operation = fixed.get(`${request.method} ${pathOf(request.url)}`)
    return operation ? handler.handle(request, operation, {}) : app.fetch(request)
  }
}

/** Operations that need no router, by method and path. Any other form of a path, such as HEAD of one, needs it. */
function fixedPaths(operations: readonly Operation[], basePath: string): ReadonlyMap<string, Operation> {
  return new Map(
    operations
      .filter(({ path }) => !path.includes(':'))
      .map((each) => [`${each.method} ${basePath}${each.path}`, each]),
  )
}

/** The path of a URL, as it was sent. */
function pathOf(url: string): string {
  const start = url.indexOf('/', url.indexOf('://') + 3)
  const query = url.indexOf('?', start)
  return url.slice(start, query < 0 ? undefined : query)
}
