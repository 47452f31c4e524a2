import { queryOptions, useQuery } from '@tanstack/react-query'
import { apiBase } from '../app/mount.ts'
import { requestHeaders } from './client.ts'

const PREFIX = '/monitor/v1'

/** The operations of the server, as `GET /jobs/{}`; null where it does not say. */
const offers = queryOptions({
  queryKey: ['offers'],
  staleTime: Infinity,
  refetchOnWindowFocus: false,
  queryFn: async ({ signal }): Promise<ReadonlySet<string> | null> => {
    const url = `${apiBase.slice(0, -PREFIX.length)}/openapi.json`
    const response = await fetch(url, { headers: requestHeaders(), signal })
    if (!response.ok) return null
    const { paths } = (await response.json()) as { paths: Record<string, Record<string, unknown>> }
    return new Set(
      Object.entries(paths).flatMap(([path, methods]) => {
        const at = path.indexOf(PREFIX)
        if (at < 0) return []
        const name = path.slice(at + PREFIX.length).replaceAll(/\{[^}]*\}/g, '{}')
        return Object.keys(methods).map((method) => `${method.toUpperCase()} ${name}`)
      }),
    )
  },
})

/** Returns which operations the server has: the page offers no button that it would refuse. */
export function useOffers(): (operation: string) => boolean {
  const known = useQuery(offers).data
  return (operation) => known === null || known?.has(operation) === true
}
