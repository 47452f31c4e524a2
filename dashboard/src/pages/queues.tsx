import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactElement, useState } from 'react'
import { queues } from '../api/queries.ts'
import type { Queue } from '../api/types.ts'
import { Act, Field, why } from '../ui/act.tsx'
import { ListPage } from '../ui/list.tsx'
import { Badge, Bar, Empty } from '../ui/parts.tsx'
import type { Column } from '../ui/table.tsx'
import { count } from '../ui/words.ts'

const COLUMNS: readonly Column<Queue>[] = [
  {
    id: 'name',
    head: 'Queue',
    cell: ({ name, paused, served }) => (
      <span className="flex items-center gap-2">
        <Link to="/jobs" search={{ queue: name }} className="truncate font-medium link" title={name}>
          {name}
        </Link>
        {paused && <Badge tone="bad">paused</Badge>}
        {!served && <Badge tone="warn">no worker</Badge>}
      </span>
    ),
  },
  { id: 'available', head: 'Waiting', right: true, cell: ({ states }) => count(states.available) },
  { id: 'throttled', head: 'For a budget', right: true, cell: ({ throttled }) => count(throttled) },
  { id: 'active', head: 'Running', right: true, cell: ({ states }) => count(states.active) },
  {
    id: 'scheduled',
    head: 'Scheduled',
    right: true,
    className: 'max-lg:hidden',
    cell: ({ states }) => count(states.scheduled),
  },
  { id: 'workers', head: 'Workers', right: true, className: 'max-sm:hidden', cell: ({ workers }) => count(workers) },
  {
    id: 'bound',
    head: 'Bound',
    className: 'w-48 max-md:hidden',
    cell: ({ name, bound, states }) =>
      bound?.maxDepth ? (
        <span className="flex items-center gap-3">
          <Bar used={states.available} max={bound.maxDepth} label={`Waiting jobs of ${name} against its bound`} />
          <span className="numbers shrink-0 text-xs text-soft">at most {count(bound.maxDepth)}</span>
        </span>
      ) : (
        <span className="text-faint">none</span>
      ),
  },
  {
    id: 'actions',
    head: <span className="sr-only">Actions</span>,
    right: true,
    cell: (queue) => <Actions queue={queue} />,
  },
]

/** Every queue, with what one can do to it. */
export function QueuesPage(): ReactElement {
  return (
    <ListPage
      title="Queues"
      sub="Where jobs wait, who serves them, and how many may wait."
      query={useQuery(queues)}
      rowsOf={(rows) => rows}
      empty={() => <Empty title="There is no queue yet">A queue appears with its first job.</Empty>}
      columns={COLUMNS}
      id={({ name }) => name}
    />
  )
}

function Actions({ queue }: { readonly queue: Queue }): ReactElement {
  const params = { name: queue.name }
  const [depth, setDepth] = useState(String(queue.bound?.maxDepth ?? ''))
  const [wait, setWait] = useState('30s')
  return (
    <span className="inline-flex justify-end gap-1">
      <Act
        kind="quiet"
        className="h-8"
        label="Drain"
        aria-label={`Drain ${queue.name}`}
        title={`Wait until ${queue.name} is empty`}
        what="It deletes nothing, and new jobs still arrive: pause what stores them first."
        recorded={false}
        change={() => ({ method: 'POST', path: '/queues/{name}/drain', params, body: { timeout: wait.trim() } })}
        told={({ drained }: { readonly drained: boolean }) =>
          drained ? `No job of ${queue.name} waits or runs.` : `Jobs of ${queue.name} still wait or run. Ask again.`
        }
        fields={
          <Field label="For at most" hint="Up to 1m, such as 30s.">
            <input className="field" value={wait} onChange={(event) => setWait(event.target.value)} />
          </Field>
        }
      />
      <Act
        kind="quiet"
        className="h-8"
        label="Bound"
        aria-label={`Bound ${queue.name}`}
        title={`How many may wait in ${queue.name}`}
        what="A job that arrives when so many wait is refused. Those that wait already stay."
        change={(reason) => ({
          method: 'PUT',
          path: '/queues/{name}/bound',
          params,
          body: { maxDepth: depth.trim() === '' ? null : Number(depth), ...why(reason) },
        })}
        fields={
          <Field label="At most" hint="A whole number of jobs. Empty: no bound.">
            <input
              className="field"
              type="number"
              min={1}
              value={depth}
              onChange={(event) => setDepth(event.target.value)}
            />
          </Field>
        }
      />
      {queue.paused ? (
        <Act
          kind="quiet"
          className="h-8"
          label="Resume"
          aria-label={`Resume ${queue.name}`}
          title={`Resume ${queue.name}`}
          what="Its jobs start again."
          change={(reason) => ({ method: 'PUT', path: '/queues/{name}/resume', params, body: why(reason) })}
        />
      ) : (
        <Act
          kind="quiet"
          className="h-8"
          label="Pause"
          aria-label={`Pause ${queue.name}`}
          title={`Pause ${queue.name}`}
          what="Nothing of it starts any more. What runs goes on, and new jobs still arrive."
          change={(reason) => ({ method: 'PUT', path: '/queues/{name}/pause', params, body: why(reason) })}
        />
      )}
    </span>
  )
}
