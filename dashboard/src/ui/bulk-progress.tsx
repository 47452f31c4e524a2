import { useQuery } from '@tanstack/react-query'
import type { ReactElement } from 'react'
import { get } from '../api/client.ts'
import { useChange } from '../api/queries.ts'
import type { Bulk } from '../api/types.ts'
import { Refused, useMayAct } from './act.tsx'
import { Bar, Button, State } from './parts.tsx'
import { count } from './words.ts'

/** How far a bulk change is. The server goes on with it when the page is closed. */
export function BulkProgress({ id }: { readonly id: string }): ReactElement {
  const { data, error } = useQuery({
    queryKey: ['bulk', id],
    queryFn: ({ signal }) => get<Bulk>(`/bulk/${encodeURIComponent(id)}`, {}, signal),
    refetchInterval: ({ state }) => (state.data && state.data.state !== 'running' ? false : 500),
  })
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
          {count(bulk.done)} of {count(bulk.total)} looked at, {count(bulk.changed)} changed
        </span>
        {bulk.state === 'running' && mayAct && (
          <Button
            disabled={stopping.isPending}
            onClick={() =>
              stopping.mutate({ method: 'POST', path: `/bulk/${encodeURIComponent(bulk.id)}/stop`, body: {} })
            }
          >
            Stop
          </Button>
        )}
      </div>
      <Bar used={bulk.done} max={Math.max(1, bulk.total)} label="Progress of the bulk change" />
      {bulk.error !== null && <p className="text-bad [overflow-wrap:anywhere]">{bulk.error}</p>}
    </div>
  )
}
