import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import type { ReactElement } from 'react'
import { tasks } from '../api/queries.ts'
import type { TaskRow } from '../api/types.ts'
import type { Search } from '../app/router.tsx'
import { Badge, Card, Empty, PageHead } from '../ui/parts.tsx'
import { Loaded } from '../ui/states.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { count, duration } from '../ui/words.ts'

const length = (ms: number | null): string => (ms === null ? '–' : duration(ms))

const COLUMNS: readonly Column<TaskRow>[] = [
  {
    id: 'task',
    head: 'Task',
    cell: ({ task, listed }) => (
      <span className="flex items-center gap-2">
        <Link to="/jobs" search={{ task }} className="truncate font-medium link" title={task}>
          {task}
        </Link>
        {!listed && <Badge tone="warn">no worker lists it</Badge>}
      </span>
    ),
  },
  { id: 'started', head: 'Starts', right: true, cell: ({ started }) => count(started) },
  {
    id: 'failed',
    head: 'Failed',
    right: true,
    cell: ({ failed, failureRate, task }) =>
      failed === 0 ? (
        <span className="text-faint">0</span>
      ) : (
        <Link to="/jobs" search={{ task, state: 'retryable,discarded' }} className="text-bad hover:underline">
          {count(failed)} ({Math.round(failureRate * 1000) / 10} %)
        </Link>
      ),
  },
  { id: 'p50', head: 'Run p50', right: true, cell: ({ p50Ms }) => length(p50Ms) },
  { id: 'p95', head: 'p95', right: true, className: 'max-md:hidden', cell: ({ p95Ms }) => length(p95Ms) },
  { id: 'p99', head: 'p99', right: true, className: 'max-md:hidden', cell: ({ p99Ms }) => length(p99Ms) },
  {
    id: 'waits',
    head: 'Waited for, in all',
    className: 'max-lg:hidden',
    cell: ({ waits }) =>
      waits.length === 0 ? (
        <span className="text-faint">nothing</span>
      ) : (
        <span className="flex gap-1.5">
          {waits
            .toSorted((a, b) => b.ms - a.ms)
            .slice(0, 3)
            .map(({ cause, ms }) => (
              <Badge key={cause} tone={cause === 'slot' ? 'info' : 'warn'}>
                {cause === 'slot' ? 'a free slot' : cause} {duration(ms)}
              </Badge>
            ))}
        </span>
      ),
  },
]

/** Each task: how long it runs, how often it fails, and what it waits for. */
export function TasksPage(): ReactElement {
  const search: Search = useSearch({ strict: false })
  const navigate = useNavigate()
  const window = search['window'] ?? '1h'
  return (
    <>
      <PageHead
        title="Tasks"
        sub="How long each runs, how often it fails, and what it waits for."
        actions={
          <label className="flex items-center gap-2 text-soft">
            In the last
            <select
              className="field"
              value={window}
              onChange={(event) => void navigate({ to: '.', search: { window: event.target.value }, replace: true })}
            >
              {['10m', '1h', '6h', '2d'].map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
        }
      />
      <Card flush>
        <Loaded query={useQuery(tasks(window))}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty title="No task has run in this time" />
            ) : (
              <Table name="Tasks" columns={COLUMNS} rows={rows} id={({ task }) => task} />
            )
          }
        </Loaded>
      </Card>
    </>
  )
}
