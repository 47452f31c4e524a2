import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactElement } from 'react'
import { me, overview, series } from '../api/queries.ts'
import type { Attention, Overview } from '../api/types.ts'
import { Chart } from '../ui/chart.tsx'
import { useFilters } from '../ui/filters.tsx'
import { BudgetLink } from '../ui/limit-parts.tsx'
import { Ago, Badge, Bar, Card, CountDown, Empty, Figure, PageHead, type Tone } from '../ui/parts.tsx'
import { RangeChoice, rangeOf } from '../ui/range.tsx'
import { Loaded } from '../ui/states.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { count, shortCount } from '../ui/words.ts'

/** What happens now, why jobs wait, and what needs someone. */
export function OverviewPage(): ReactElement {
  return <Loaded query={useQuery(overview)}>{(data) => <All data={data} />}</Loaded>
}

function All({ data }: { readonly data: Overview }): ReactElement {
  const { states, perMinute, waiting, workers } = data
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <PageHead
        title="Overview"
        sub={
          data.counted.estimated ? (
            'The store is large and is being counted: numbers of jobs are estimates.'
          ) : data.counted.exact ? undefined : (
            <>
              The store is large: counts are from <Ago at={data.counted.at} />.
            </>
          )
        }
      />
      <div className="grid grid-cols-2 gap-3 lg:grid-cols-3 2xl:grid-cols-6">
        <Figure
          name="Waits for a budget"
          value={shortCount(waiting.total)}
          unit={waiting.total === 1 ? 'job' : 'jobs'}
        />
        <Figure name="Running" value={shortCount(states.active)} unit={states.active === 1 ? 'job' : 'jobs'} />
        <Figure name="Completed" value={shortCount(perMinute.completed)} unit="a minute" />
        <Figure
          name="Failed"
          value={shortCount(perMinute.failed)}
          unit="a minute"
          {...(perMinute.failed > 0 && { tone: 'bad' as const })}
        />
        <Figure name="Discarded" value={shortCount(states.discarded)} unit={states.discarded === 1 ? 'job' : 'jobs'} />
        <Figure
          name="Workers"
          value={count(workers.alive)}
          unit="alive"
          {...(workers.alive === 0 && { tone: 'warn' as const })}
        />
      </div>
      <AttentionList attention={data.attention} />
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4 xl:grid-cols-2">
        <Throughput />
        <Causes data={data} />
      </div>
      <Queues queues={data.queues} />
    </div>
  )
}

/** Of all tenants together: one of them sees the series of its own queues and limits, on their pages. */
function Throughput(): ReactElement | null {
  const { data: caller } = useQuery(me)
  return caller === undefined || (caller.tenant ?? '') !== '' ? null : <AllThroughput />
}

function AllThroughput(): ReactElement {
  const [search] = useFilters()
  const query = useQuery(series({ metric: 'completed,failed', from: rangeOf(search['range']) }))
  return (
    <Card title="Throughput" actions={<RangeChoice />}>
      <Loaded query={query}>
        {(data) => {
          const of = (name: string) => data.series.find(({ metric }) => metric === name)?.points ?? []
          if (of('completed').length === 0)
            return <Empty title="Nothing was measured yet">The first figures come after ten seconds of work.</Empty>
          return (
            <Chart
              label="Jobs completed and failed over time"
              unit={`jobs in ${data.step / 1000} s`}
              height={240}
              series={[
                { name: 'completed', points: of('completed'), colour: 1, fill: true },
                { name: 'failed', points: of('failed'), colour: 5 },
              ]}
            />
          )
        }}
      </Loaded>
    </Card>
  )
}

/** Which budget holds most back. */
function Causes({ data: { waiting, oldestWaiting } }: { readonly data: Overview }): ReactElement {
  const [first] = waiting.causes
  return (
    <Card
      title="Why jobs wait"
      hint={
        first &&
        `${Math.round(first.share * 100)} % of the waiting is ${first.limit}${first.key === null ? '' : ` · ${first.key}`}`
      }
      flush
    >
      {waiting.causes.length === 0 ? (
        <Empty title="No job waits for a budget">Every job that may start, starts.</Empty>
      ) : (
        <ul className="divide-y divide-line">
          {waiting.causes.slice(0, 8).map((cause) => (
            <li
              key={`${cause.limit} ${cause.key}`}
              className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-4 gap-y-1 px-4 py-2"
            >
              <span className="truncate">
                <BudgetLink limit={cause.limit} name={cause.key} />
              </span>
              <span className="numbers text-soft">
                {count(cause.waiting)} {cause.waiting === 1 ? 'job' : 'jobs'} · next <CountDown at={cause.nextStart} />
              </span>
              <span className="col-span-2">
                <Bar used={cause.share * 0.79} max={1} label={`Share of ${cause.limit} in the waiting`} />
              </span>
            </li>
          ))}
        </ul>
      )}
      {oldestWaiting && (
        <p className="border-t border-line px-4 py-2.5 text-soft">
          Available for longest:{' '}
          <Link to="/jobs/$id" params={{ id: oldestWaiting.id }} className="font-medium link">
            {oldestWaiting.task}
          </Link>
          , arrived <Ago at={oldestWaiting.createdAt} />.
        </p>
      )}
    </Card>
  )
}

const TONES: Record<Attention['severity'], Tone> = { error: 'bad', warning: 'warn', info: 'info' }

function AttentionList({ attention }: { readonly attention: readonly Attention[] }): ReactElement {
  if (attention.length === 0)
    return (
      <p className="card flex items-center gap-2 px-4 py-3 text-soft">
        <Badge tone="good">fine</Badge> Nothing needs anyone.
      </p>
    )
  return (
    <Card title="Needs someone" hint={count(attention.length)} flush>
      <ul className="divide-y divide-line">
        {attention.map((each, n) => (
          <li key={n} className="grid grid-cols-[4.5rem_minmax(0,1fr)] gap-x-3 px-4 py-2.5">
            <span>
              <Badge tone={TONES[each.severity]}>{each.severity}</Badge>
            </span>
            <span className="min-w-0 [overflow-wrap:anywhere]">
              <span className="font-medium">{each.words}</span> <span className="text-soft">{each.action}</span>{' '}
              <Subject of={each} />
            </span>
          </li>
        ))}
      </ul>
    </Card>
  )
}

function Subject({ of: { subject, kind } }: { readonly of: Attention }): ReactElement | null {
  if (subject.limit !== undefined) return <BudgetLink limit={subject.limit} />
  if (subject.schedule !== undefined)
    return (
      <Link to="/schedules" className="link">
        Schedules
      </Link>
    )
  const search = {
    ...(subject.task !== undefined && { task: subject.task }),
    ...(subject.queue !== undefined && { queue: subject.queue }),
  }
  if (Object.keys(search).length === 0) return null
  return (
    <Link
      to="/jobs"
      search={{ ...search, ...(kind === 'task.failing' && { state: 'retryable,discarded' }) }}
      className="link"
    >
      Its jobs
    </Link>
  )
}

type QueueRow = Overview['queues'][number]

const QUEUES: readonly Column<QueueRow>[] = [
  {
    id: 'queue',
    head: 'Queue',
    cell: ({ name: queue, paused }) => (
      <span className="flex items-center gap-2">
        <Link to="/jobs" search={{ queue }} className="truncate font-medium link" title={queue}>
          {queue}
        </Link>
        {paused && <Badge tone="bad">paused</Badge>}
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
    className: 'max-md:hidden',
    cell: ({ states }) => count(states.scheduled),
  },
  {
    id: 'completed',
    head: 'Completed',
    right: true,
    className: 'max-md:hidden',
    cell: ({ states }) => count(states.completed),
  },
  {
    id: 'discarded',
    head: 'Discarded',
    right: true,
    className: 'max-md:hidden',
    cell: ({ states }) => count(states.discarded),
  },
  { id: 'workers', head: 'Workers', right: true, className: 'max-sm:hidden', cell: ({ workers }) => count(workers) },
]

function Queues({ queues }: { readonly queues: readonly QueueRow[] }): ReactElement {
  return (
    <Card title="Queues" flush>
      {queues.length === 0 ? (
        <Empty title="There is no queue yet" />
      ) : (
        <Table name="Queues" columns={QUEUES} rows={queues} id={({ name }) => name} />
      )}
    </Card>
  )
}
