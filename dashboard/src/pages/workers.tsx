import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactElement } from 'react'
import { workers } from '../api/queries.ts'
import type { Worker } from '../api/types.ts'
import { Act, why } from '../ui/act.tsx'
import { Ago, Badge, Bar, Card, Empty, PageHead } from '../ui/parts.tsx'
import { Loaded } from '../ui/states.tsx'
import { count, plural } from '../ui/words.ts'

/** Who works, on what, and since when. */
export function WorkersPage(): ReactElement {
  return (
    <>
      <PageHead title="Workers" sub="Each process that takes jobs, what it runs, and its free slots." />
      <Loaded query={useQuery(workers)}>
        {(rows) =>
          rows.length === 0 ? (
            <Card>
              <Empty title="No worker is alive">Jobs wait until a process starts that serves their queue.</Empty>
            </Card>
          ) : (
            <ul className="grid grid-cols-[minmax(0,1fr)] gap-4 xl:grid-cols-2">
              {rows.map((worker) => (
                <li key={worker.worker} className="min-w-0">
                  <One worker={worker} />
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </>
  )
}

function One({ worker }: { readonly worker: Worker }): ReactElement {
  const { slots, running, host, pid } = worker
  const title = worker.name ?? (host === null ? `Worker ${worker.worker}` : `${host} · ${pid}`)
  return (
    <Card
      flush
      title={
        <span className="flex items-center gap-2">
          <span className="[overflow-wrap:anywhere]">{title}</span>
          <Badge tone={worker.alive ? 'good' : 'bad'}>{worker.alive ? 'alive' : 'gone'}</Badge>
          {worker.directive !== 'running' && <Badge tone="violet">{worker.directive}</Badge>}
        </span>
      }
      actions={
        worker.name !== null && worker.alive ? (
          <Act
            kind="quiet"
            className="h-8"
            label="Quiet"
            aria-label={`Quiet ${title}`}
            title={`Let ${title} take no more jobs`}
            what="It finishes what it runs, and fetches no more."
            change={(reason) => ({
              method: 'PUT',
              path: '/workers/{name}/quiet',
              params: { name: worker.name ?? '' },
              body: why(reason),
            })}
          />
        ) : undefined
      }
    >
      <div className="grid gap-2 px-4 py-3">
        <p className="text-soft [overflow-wrap:anywhere]">
          Serves {worker.queues.length === 0 ? 'no queue' : worker.queues.join(', ')}; since{' '}
          <Ago at={worker.joinedAt} />
        </p>
        <div className="flex items-center gap-3">
          {slots !== null && <Bar used={worker.active} max={slots} label={`Slots of ${title} in use`} />}
          <span className="numbers shrink-0 text-xs text-soft">
            {slots === null
              ? `${count(worker.active)} running`
              : `${count(worker.active)} of ${plural(slots, 'slot')} in use`}
          </span>
        </div>
      </div>
      {running.length > 0 && (
        <ul
          className="max-h-64 divide-y divide-line overflow-y-auto border-t border-line"
          tabIndex={0}
          aria-label={`Jobs of ${title}`}
        >
          {running.map((job) => (
            <li key={job.id} className="flex justify-between gap-3 px-4 py-1.5">
              <Link to="/jobs/$id" params={{ id: job.id }} className="truncate link" title={job.id}>
                {job.task}
              </Link>
              <span className="shrink-0 text-xs leading-6 text-faint">
                attempt {job.attempt}, since <Ago at={job.since} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}
