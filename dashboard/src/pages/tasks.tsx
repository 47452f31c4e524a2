import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactElement } from 'react'
import { tasks, type TaskWindow } from '../api/queries.ts'
import type { TaskRow } from '../api/types.ts'
import { ChoiceFilter, useFilters } from '../ui/filters.tsx'
import { BudgetLink } from '../ui/limit-parts.tsx'
import { ListPage } from '../ui/list.tsx'
import { Badge, Empty, None } from '../ui/parts.tsx'
import type { Column } from '../ui/table.tsx'
import { count, duration } from '../ui/words.ts'

const length = (ms: number | null): ReactElement | string => (ms === null ? <None /> : duration(ms))

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
          {count(failed)} ({Math.round((failureRate ?? 0) * 1000) / 10} %)
        </Link>
      ),
  },
  { id: 'p50', head: 'Runs, p50', right: true, className: 'max-sm:hidden', cell: ({ p50Ms }) => length(p50Ms) },
  { id: 'p95', head: 'p95', right: true, className: 'max-md:hidden', cell: ({ p95Ms }) => length(p95Ms) },
  { id: 'p99', head: 'p99', right: true, className: 'max-md:hidden', cell: ({ p99Ms }) => length(p99Ms) },
  {
    id: 'waited',
    head: 'Waited, p95',
    right: true,
    className: 'max-lg:hidden',
    cell: ({ waitP95Ms }) => length(waitP95Ms),
  },
  {
    id: 'waits',
    head: 'Waited for, in all',
    className: 'max-lg:hidden w-full',
    cell: ({ waits }) =>
      waits.length === 0 ? (
        <span className="text-faint">no budget</span>
      ) : (
        <span className="flex gap-3">
          {waits.slice(0, 3).map(({ limit, ms }) => (
            <span key={limit} className="truncate">
              <BudgetLink limit={limit} /> <span className="numbers text-soft">{duration(ms)}</span>
            </span>
          ))}
        </span>
      ),
  },
]

const WINDOWS: readonly (readonly [TaskWindow, string])[] = [
  ['10m', 'last 10 min'],
  ['1h', 'last hour'],
  ['6h', 'last 6 hours'],
  ['1d', 'last day'],
  ['2d', 'last 2 days'],
]

/** Each task: how long it runs, how often it fails, and what it waits for. */
export function TasksPage(): ReactElement {
  const [search] = useFilters()
  const window = WINDOWS.find(([each]) => each === search['window'])?.[0] ?? '1h'
  return (
    <ListPage
      title="Tasks"
      sub="How long each runs, how often it fails, and which budgets it waits for."
      actions={<ChoiceFilter name="window" label="Time shown" value={window} choices={WINDOWS} />}
      query={useQuery(tasks(window))}
      rowsOf={(rows) => rows}
      empty={() => <Empty title="No task has run in this time">Choose a longer time, or wait for the first run.</Empty>}
      columns={COLUMNS}
      id={({ task }) => task}
    />
  )
}
