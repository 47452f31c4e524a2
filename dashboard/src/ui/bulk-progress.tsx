import { useQuery } from '@tanstack/react-query'
import type { ReactElement } from 'react'
import { bulk as bulkQuery, useChange } from '../api/queries.ts'
import type { Bulk } from '../api/types.ts'
import { Refused, useMayAct } from './act.tsx'
import { Bar, Button, State } from './parts.tsx'
import { count } from './words.ts'

/** How far a bulk change is. The server goes on with it when the page is closed. */
export function BulkProgress({ id }: { readonly id: string }): ReactElement {
  const { data, error } = useQuery(bulkQuery(id))
  if (error) return <Refused error={error} />
  if (!data) return <p role="status">Starting…</p>
  return <BulkState bulk={data} />
}

export function BulkState({ bulk }: { readonly bulk: Bulk }): ReactElement {
  const stopping = useChange()
  const mayAct = useMayAct()
  return (
    <div className="grid gap-2" data-testid="bulk">
      <div className="flex items-center justify-between gap-3">
        <span role="status" className="numbers flex items-center gap-2">
          <State state={bulk.state === 'done' ? 'completed' : bulk.state === 'stopped' ? 'cancelled' : bulk.state} />
          {count(bulk.changed)} of {count(bulk.total)} changed
        </span>
        {bulk.state === 'running' && mayAct && (
          <Button
            disabled={stopping.isPending}
            onClick={() =>
              stopping.mutate({ method: 'POST', path: '/bulk/{id}/stop', params: { id: bulk.id }, body: {} })
            }
          >
            Stop
          </Button>
        )}
      </div>
      <Bar
        used={bulk.state === 'done' ? Math.max(1, bulk.total) : bulk.changed}
        max={Math.max(1, bulk.total)}
        label="Progress of the bulk change"
        isWork
      />
      {bulk.error !== null && <p className="text-bad [overflow-wrap:anywhere]">{bulk.error}</p>}
    </div>
  )
}
