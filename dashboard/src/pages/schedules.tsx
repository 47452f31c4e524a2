import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactElement, useState } from 'react'
import { schedules } from '../api/queries.ts'
import type { Schedule } from '../api/types.ts'
import { Act, why } from '../ui/act.tsx'
import { JsonTree } from '../ui/json-tree.tsx'
import { ListPage } from '../ui/list.tsx'
import { Modal } from '../ui/modal.tsx'
import { At, Badge, Button, CountDown, Empty } from '../ui/parts.tsx'
import type { Column } from '../ui/table.tsx'
import { count, duration, plural } from '../ui/words.ts'

/** The server names no more of them. */
const MISSED_AT_MOST = 100

function missedWords({ length }: Schedule['missed']): string {
  return length >= MISSED_AT_MOST ? `${MISSED_AT_MOST} or more missed` : `${length} missed`
}

const COLUMNS: readonly Column<Schedule>[] = [
  {
    id: 'name',
    head: 'Schedule',
    cell: ({ name, state, missed }) => (
      <span className="flex items-center gap-2">
        <Link to="/jobs" search={{ schedule: name }} className="truncate font-medium link" title={name}>
          {name}
        </Link>
        {state === 'completed' && <Badge>ended</Badge>}
        {state === 'paused' && <Badge tone="warn">paused</Badge>}
        {missed.length > 0 && <Badge tone="warn">{missedWords(missed)}</Badge>}
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
    cell: ({ next, nextAt, state }) => (
      <span>
        <CountDown at={nextAt} none={state === 'paused' ? 'paused' : 'ended'} />
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
    cell: (schedule) => (
      <span className="inline-flex justify-end gap-1">
        <Occurrences schedule={schedule} />
        <Changes schedule={schedule} />
        <Act
          kind="quiet"
          className="h-8"
          label="Remove"
          aria-label={`Remove ${schedule.name}`}
          title={`Remove ${schedule.name}`}
          what="No further occurrence becomes a job. A process that defines the schedule makes it again at its next start."
          change={(reason) => ({
            method: 'DELETE',
            path: '/schedules/{name}',
            params: { name: schedule.name },
            query: why(reason),
          })}
        />
      </span>
    ),
  },
]

/** Buttons that run a schedule once more, and stop it for a while. */
function Changes({ schedule: { name, state, onMissed } }: { readonly schedule: Schedule }): ReactElement {
  const params = { name }
  return (
    <>
      <Act
        kind="quiet"
        className="h-8"
        label="Run now"
        aria-label={`Run now: ${name}`}
        title={`Run ${name} now`}
        what="One more job is stored, under the limits of the schedule. Its due times stay."
        change={(reason) => ({ method: 'POST', path: '/schedules/{name}/run', params, body: why(reason) })}
      />
      {state === 'active' && (
        <Act
          kind="quiet"
          className="h-8"
          label="Pause"
          aria-label={`Pause ${name}`}
          title={`Pause ${name}`}
          what="No further occurrence becomes a job, also after a restart. What waits or runs goes on."
          change={(reason) => ({ method: 'PUT', path: '/schedules/{name}/pause', params, body: why(reason) })}
        />
      )}
      {state === 'paused' && (
        <Act
          kind="quiet"
          className="h-8"
          label="Resume"
          aria-label={`Resume ${name}`}
          title={`Resume ${name}`}
          what={
            onMissed === 'catchUp'
              ? 'Occurrences become jobs again. It catches up with those that were due meanwhile.'
              : 'Occurrences become jobs again. Those that were due meanwhile are skipped.'
          }
          change={(reason) => ({ method: 'PUT', path: '/schedules/{name}/resume', params, body: why(reason) })}
        />
      )}
    </>
  )
}

/** A button that shows the next occurrences, the missed ones, and what each carries. */
function Occurrences({ schedule }: { readonly schedule: Schedule }): ReactElement {
  const [open, setOpen] = useState(false)
  const { name, state, task, queue, next, missed, onMissed, overlap, until, maxRuns, input } = schedule
  const facts: (readonly [string, ReactElement | string])[] = [
    ['Task', task],
    ['Queue', queue],
    ['When it is late', onMissed === 'catchUp' ? 'it catches up with what was missed' : 'what was missed is skipped'],
    ['When one still runs', overlap === 'allow' ? 'the next one runs beside it' : 'the next one is skipped'],
  ]
  if (until !== null) facts.push(['Until', <At key="until" at={until} />])
  if (maxRuns !== null) facts.push(['At most', plural(maxRuns, 'run')])
  return (
    <>
      <Button kind="quiet" className="h-8" aria-label={`Occurrences of ${name}`} onClick={() => setOpen(true)}>
        Occurrences
      </Button>
      <Modal open={open} onClose={() => setOpen(false)} title={name}>
        <div className="grid gap-4 text-left whitespace-normal">
          <section className="grid gap-1.5">
            <h3 className="font-medium">Next</h3>
            {next.length === 0 ? (
              <p className="text-soft">{state === 'paused' ? 'None: it is paused.' : 'None: the series has ended.'}</p>
            ) : (
              <ol className="grid gap-1">
                {next.map((at) => (
                  <li key={at} className="flex justify-between gap-4">
                    <At at={at} />
                    <span className="text-soft">
                      <CountDown at={at} />
                    </span>
                  </li>
                ))}
              </ol>
            )}
          </section>
          {missed.length > 0 && (
            <section className="grid gap-1.5">
              <h3 className="font-medium text-warn">{missedWords(missed)} since the last job</h3>
              <ol className="grid max-h-32 gap-1 overflow-y-auto" tabIndex={0} aria-label="Missed occurrences">
                {missed.map((at) => (
                  <li key={at}>
                    <At at={at} />
                  </li>
                ))}
              </ol>
            </section>
          )}
          <dl className="grid grid-cols-[9rem_minmax(0,1fr)] gap-y-1.5 border-t border-line pt-4">
            {facts.map(([term, value]) => (
              <div key={term} className="contents">
                <dt className="text-faint">{term}</dt>
                <dd className="[overflow-wrap:anywhere]">{value}</dd>
              </div>
            ))}
          </dl>
          <JsonTree value={input} name="input" />
        </div>
      </Modal>
    </>
  )
}

/** Every schedule, with its next occurrences and those that it missed. */
export function SchedulesPage(): ReactElement {
  return (
    <ListPage
      title="Schedules"
      sub="What comes again, when it comes next, and what was missed."
      query={useQuery(schedules)}
      rowsOf={(rows) => rows}
      empty={() => (
        <Empty title="There is no schedule">A schedule appears when a process that defines it starts.</Empty>
      )}
      columns={COLUMNS}
      id={({ name }) => name}
    />
  )
}
