import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { ROUTES } from '../../src/http/routes.ts'

test('the reference lists every route under the scope that it needs, and how far it reaches', () => {
  const text = readFileSync(new URL('../../docs/reference/http.md', import.meta.url), 'utf8')
  const listed = text.split(/^## /m).flatMap((section) => {
    const heading = /^.*/.exec(section)?.[0].replaceAll('`', '') ?? ''
    const scope = heading === 'Without a token' ? null : heading
    return [...section.matchAll(/^- `([A-Z]+ \/\S*)`(?: \(_(\w+)_\))?:/gm)].map(([, route, reach = 'queue']) => ({
      route,
      scope,
      reach,
    }))
  })
  const served = ROUTES.map(({ method, path, right }) => ({
    route: `${method} ${path}`,
    scope: right.scope,
    reach: right.reach,
  }))
  const byRoute = (a: { route: string | undefined }, b: { route: string | undefined }): number =>
    String(a.route).localeCompare(String(b.route))
  expect(listed.toSorted(byRoute)).toEqual(served.toSorted(byRoute))
})
