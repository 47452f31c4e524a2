import { Link } from '@tanstack/react-router'
import type { ReactElement } from 'react'
import { ApiError } from '../api/client.ts'
import { Button } from '../ui/parts.tsx'

/** What went wrong and what to do, in the words of the server. */
export function Fault({ error, retry }: { readonly error: unknown; readonly retry?: () => void }): ReactElement {
  const known = error instanceof ApiError ? error : null
  const title =
    known?.status === 0
      ? 'The server does not answer'
      : known?.status === 404
        ? 'This is not here'
        : known?.status === 403 || known?.status === 401
          ? 'You may not see this'
          : 'This could not be shown'
  return (
    <div role="alert" className="card m-auto max-w-xl p-6 text-center">
      <h2 className="text-base font-semibold">{title}</h2>
      <p className="mt-1 [overflow-wrap:anywhere] text-soft">
        {error instanceof Error ? error.message : String(error)}
      </p>
      {known?.hint !== undefined && <p className="mt-1 text-soft">{known.hint}</p>}
      {known !== null && known.status !== 0 && <p className="mt-2 font-mono text-xs text-faint">{known.code}</p>}
      {retry && (
        <Button className="mt-4" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  )
}

export function PageError({ error, reset }: { readonly error: unknown; readonly reset: () => void }): ReactElement {
  return <Fault error={error} retry={reset} />
}

export function NotFound(): ReactElement {
  return (
    <div className="m-auto max-w-xl p-10 text-center">
      <h1 className="text-base font-semibold">There is no such page</h1>
      <p className="mt-1 text-soft">The address names nothing that the dashboard shows.</p>
      <Link to="/" className="mt-3 inline-block link">
        To the overview
      </Link>
    </div>
  )
}
