import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactElement, ReactNode } from 'react'
import { ApiError } from '../api/client.ts'
import { Fault } from '../app/faults.tsx'
import { Empty } from './parts.tsx'

/** Shows what a query answered. Until then a quiet place of the right size; old data stays while new is asked. */
export function Loaded<T>({
  query,
  children,
}: {
  readonly query: UseQueryResult<T>
  readonly children: (data: T) => ReactNode
}): ReactElement {
  if (query.data !== undefined) return <>{children(query.data)}</>
  if (query.error instanceof ApiError && /^The path .* does not exist/.test(query.error.message))
    return <Empty title="This server does not answer this">It may be of another version than the page.</Empty>
  if (query.error) return <Fault error={query.error} retry={() => void query.refetch()} />
  return (
    <div role="status" className="grid gap-2 p-4">
      <span className="sr-only">Loading</span>
      {[0, 1, 2].map((n) => (
        <span key={n} aria-hidden="true" className="h-9 animate-pulse rounded-md bg-sunken" />
      ))}
    </div>
  )
}
