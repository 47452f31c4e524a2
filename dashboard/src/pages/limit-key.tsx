import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import type { ReactElement } from 'react'
import { keyOf } from '../api/client.ts'
import { key as keyQuery, limit as limitQuery } from '../api/queries.ts'
import type { LinePlace } from '../api/types.ts'
import { LimitActions } from '../ui/limit-actions.tsx'
import { Overrides, Used } from '../ui/limit-parts.tsx'
import { Ago, At, Card, CountDown, Empty, Figure, None, PageHead } from '../ui/parts.tsx'
import { Loaded } from '../ui/states.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { count, plural } from '../ui/words.ts'
import { BudgetChart } from './limit.tsx'

const LINE: readonly Column<LinePlace>[] = [
  {
    id: 'position',
    head: '#',
    right: true,
    className: 'w-12',
    cell: ({ position }) => (position === null ? <None /> : count(position)),
  },
  {
    id: 'job',
    head: 'Job',
    cell: ({ id, task }) => (
      <Link to="/jobs/$id" params={{ id }} className="link" title={id}>
        {task}
      </Link>
    ),
  },
  { id: 'queue', head: 'Queue', className: 'max-md:hidden', cell: ({ queue }) => queue },
  { id: 'priority', head: 'Priority', right: true, className: 'max-sm:hidden', cell: ({ priority }) => priority },
  {
    id: 'since',
    head: 'Arrived',
    right: true,
    className: 'max-sm:hidden',
    cell: ({ createdAt }) => <Ago at={createdAt} />,
  },
  {
    id: 'start',
    head: 'Expected start',
    right: true,
    cell: ({ expectedStart, exact }) =>
      expectedStart === null ? (
        <span className="text-faint">not known</span>
      ) : (
        <span title={exact ? 'exact, unless something changes' : 'an estimate'}>
          {exact ? '' : '≈ '}
          <At at={expectedStart} />{' '}
          <span className="text-xs text-faint">
            (<CountDown at={expectedStart} />)
          </span>
        </span>
      ),
  },
]

/** One budget: who waits for it, at which position, and when each starts. */
export function LimitKeyPage(): ReactElement {
  const { limit: name = '', key: path = '~' } = useParams({ strict: false })
  const key = keyOf(path)
  const query = useQuery(keyQuery(name, key))
  const limit = useQuery(limitQuery(name))
  return (
    <Loaded query={query}>
      {({ bucket, line, holders, history }) => (
        <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
          <PageHead
            title={
              <>
                <Link to="/limits/$limit" params={{ limit: name }} className="link">
                  {name}
                </Link>
                {key !== null && <> · {key === '' ? '(empty)' : key}</>}
              </>
            }
            sub={limit.data?.rule ?? '…'}
            actions={limit.data && <LimitActions limit={limit.data} name={key} overrides={history} />}
          />
          <div className="grid grid-cols-2 gap-3 lg:grid-cols-4">
            <div className="card grid content-center px-4 py-3">
              <div className="mb-1.5 text-xs text-faint">Budget used now</div>
              <Used bucket={bucket} name={key ?? name} />
            </div>
            <Figure name="Waiting" value={count(bucket.waiting)} unit={bucket.waiting === 1 ? 'job' : 'jobs'} />
            <Figure name="Next start" value={<CountDown at={bucket.nextStart} none="nothing waits" />} />
            <Figure
              name={bucket.debt > 0 ? 'Debt' : 'Backlog drained'}
              value={
                bucket.debt > 0 ? (
                  count(bucket.debt)
                ) : (
                  <CountDown at={bucket.drained} none={bucket.waiting > 0 ? 'not known' : 'nothing waits'} />
                )
              }
              unit={bucket.debt > 0 ? 'units' : undefined}
            />
          </div>
          <BudgetChart limit={name} {...(key !== null && { name: key })} />
          <Card title="In line" hint={plural(bucket.waiting, 'job')} flush>
            {line.length === 0 ? (
              <Empty title="Nothing waits for this budget" />
            ) : (
              <>
                <Table name="Jobs in line" columns={LINE} rows={line} id={({ id }) => id} />
                {bucket.waiting > line.length && (
                  <p className="border-t border-line px-4 py-2 text-xs text-faint">
                    The first {count(line.length)}.{' '}
                    <Link
                      to="/jobs"
                      search={{ limit: name, ...(key !== null && { key }), state: 'available' }}
                      className="link"
                    >
                      All that wait
                    </Link>
                  </p>
                )}
              </>
            )}
          </Card>
          {holders.length > 0 && (
            <Card title="Running now" hint="they hold permits" flush>
              <ul className="divide-y divide-line">
                {holders.map(({ id, task, startedAt }) => (
                  <li key={id} className="flex flex-wrap justify-between gap-2 px-4 py-2">
                    <Link to="/jobs/$id" params={{ id }} className="link" title={id}>
                      {task}
                    </Link>
                    <span className="text-soft">
                      since <At at={startedAt} />
                    </span>
                  </li>
                ))}
              </ul>
            </Card>
          )}
          {history.length > 0 && (
            <Card title="Changed by hand" flush>
              <Overrides overrides={history} />
            </Card>
          )}
        </div>
      )}
    </Loaded>
  )
}
