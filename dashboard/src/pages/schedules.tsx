import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactElement } from 'react'
import { schedules } from '../api/queries.ts'
import type { Schedule } from '../api/types.ts'
import { Act } from '../ui/act.tsx'
import { At, Badge, Card, CountDown, Empty, PageHead } from '../ui/parts.tsx'
import { Loaded } from '../ui/states.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { count, duration } from '../ui/words.ts'

const COLUMNS: readonly Column<Schedule>[] = [
  {
    id: 'name',
    head: 'Schedule',
    cell: ({ name, state, skipped }) => (
      <span className="flex items-center gap-2">
        <Link to="/jobs" search={{ schedule: name }} className="truncate font-medium link" title={name}>
          {name}
        </Link>
        {state === 'completed' && <Badge>ended</Badge>}
        {skipped && (
          <span title={skipped.reason ?? undefined}>
            <Badge tone="warn">{count(skipped.count)} skipped</Badge>
          </span>
        )}
      </span>
    ),
  },
  {
    id: 'when',
    head: 'When',
    cell: ({ cron, every, timezone }) => (
      <span title={timezone ?? undefined}>
        {cron !== null ? <code className="text-xs">{cron}</code> : `every ${duration(every ?? 0)}`}
        {timezone !== null && <span className="text-xs text-faint"> {timezone}</span>}
      </span>
    ),
  },
  { id: 'task', head: 'Task', className: 'max-lg:hidden', cell: ({ task }) => <span title={task}>{task}</span> },
  {
    id: 'next',
    head: 'Next',
    cell: ({ next, nextAt }) => (
      <span title={next.map((at) => new Date(at).toLocaleString()).join('\n')}>
        <CountDown at={nextAt} none="ended" />
        <span className="text-xs text-faint max-sm:hidden">
          {next.slice(1, 2).map((at) => (
            <span key={at}>
              , then <At at={at} />
            </span>
          ))}
        </span>
      </span>
    ),
  },
  {
    id: 'last',
    head: 'Last',
    right: true,
    className: 'max-md:hidden',
    cell: ({ lastAt, lastJob }) =>
      lastJob === null ? (
        <span className="text-faint">never</span>
      ) : (
        <Link to="/jobs/$id" params={{ id: lastJob }} className="link">
          <At at={lastAt} />
        </Link>
      ),
  },
  { id: 'runs', head: 'Runs', right: true, className: 'max-lg:hidden', cell: ({ runs }) => count(runs) },
  {
    id: 'actions',
    head: <span className="sr-only">Actions</span>,
    right: true,
    cell: ({ name }) => (
      <span className="inline-flex justify-end gap-1">
        <Act
          kind="quiet"
          className="h-8"
          label="Run now"
          operation="POST /schedules/{}/run"
          aria-label={`Run now: ${name}`}
          title={`Run ${name} now`}
          what="One more job is enqueued at once. The next occurrences stay as they are."
          change={(reason) => ({
            method: 'POST',
            path: `/schedules/${encodeURIComponent(name)}/run`,
            body: reason === '' ? {} : { reason },
          })}
        />
        <Act
          kind="quiet"
          className="h-8"
          label="Remove"
          aria-label={`Remove ${name}`}
          title={`Remove ${name}`}
          what="No further occurrence becomes a job. A process that defines the schedule makes it again at its next start."
          change={(reason) => ({
            method: 'DELETE',
            path: `/schedules/${encodeURIComponent(name)}`,
            ...(reason !== '' && { query: { reason } }),
          })}
        />
      </span>
    ),
  },
]

/** Every schedule, with its next occurrences and those that it missed. */
export function SchedulesPage(): ReactElement {
  return (
    <>
      <PageHead title="Schedules" sub="What comes again, when it comes next, and what was skipped." />
      <Card flush>
        <Loaded query={useQuery(schedules)}>
          {(rows) =>
            rows.length === 0 ? (
              <Empty title="There is no schedule">A schedule appears when a process that defines it starts.</Empty>
            ) : (
              <Table name="Schedules" columns={COLUMNS} rows={rows} id={({ name }) => name} />
            )
          }
        </Loaded>
      </Card>
    </>
  )
}
