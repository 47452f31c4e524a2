import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import type { ReactElement } from 'react'
import { pathKey } from '../api/client.ts'
import { type KeySort, keys, limit as limitQuery, series } from '../api/queries.ts'
import type { Bucket, Limit } from '../api/types.ts'
import { Chart } from '../ui/chart.tsx'
import { ChoiceFilter, useFilters } from '../ui/filters.tsx'
import { LimitActions } from '../ui/limit-actions.tsx'
import { InForce, Overrides, Used } from '../ui/limit-parts.tsx'
import { Badge, Card, CountDown, Empty, Figure, PageHead } from '../ui/parts.tsx'
import { RangeChoice, rangeOf } from '../ui/range.tsx'
import { Loaded } from '../ui/states.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { count, plural } from '../ui/words.ts'

/** One limit: its budget over time, and its keys by backlog. */
export function LimitPage(): ReactElement {
  const { limit: name = '' } = useParams({ strict: false })
  const query = useQuery(limitQuery(name))
  return <Loaded query={query}>{(limit) => <One limit={limit} />}</Loaded>
}

function One({ limit }: { readonly limit: Limit }): ReactElement {
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <PageHead
        title={
          <span className="inline-flex flex-wrap items-center gap-2">
            {limit.name}
            {limit.paused ? <Badge tone="bad">paused</Badge> : <InForce overrides={limit.overrides} />}
          </span>
        }
        sub={limit.rule}
        actions={<LimitActions limit={limit} overrides={limit.overrides} />}
      />
      {limit.onlyKey === null ? (
        <>
          <Figures limit={limit} />
          <BudgetChart limit={limit.name} isOne={limit.bucket !== null} />
        </>
      ) : (
        <>
          <p className="card px-4 py-3 text-soft">
            All tenants share this limit, so that only your own key {limit.onlyKey} is shown.
          </p>
          <BudgetChart limit={limit.name} name={limit.onlyKey} />
        </>
      )}
      {limit.bucket ? (
        <Card title="The one budget of this limit">
          <div className="flex flex-wrap items-center gap-6">
            <div className="min-w-60 grow">
              <Used bucket={limit.bucket} name={limit.name} />
            </div>
            <Link to="/limits/$limit/keys/$key" params={{ limit: limit.name, key: pathKey(null) }} className="link">
              {plural(limit.waiting, 'waiting job')} in line →
            </Link>
          </div>
        </Card>
      ) : (
        <Keys name={limit.name} />
      )}
      <Card title="Changed by hand" flush>
        {limit.overrides.length > 0 ? (
          <Overrides overrides={limit.overrides} />
        ) : (
          <Empty title="Nothing is changed by hand">The numbers are those of its definition.</Empty>
        )}
      </Card>
    </div>
  )
}

function Figures({ limit }: { readonly limit: Limit }): ReactElement {
  return (
    <div className="grid grid-cols-2 gap-3 lg:grid-cols-4">
      <Figure name="Waiting" value={count(limit.waiting)} unit={limit.waiting === 1 ? 'job' : 'jobs'} />
      <Figure
        name={limit.bucket ? 'Permits held' : 'Keys held back'}
        value={count(limit.bucket ? limit.active : limit.heldKeys)}
        unit={limit.bucket ? '' : `of ${count(limit.keys)}`}
      />
      <Figure name="Next start" value={<CountDown at={limit.nextStart} none="nothing waits" />} />
      <Figure
        name="Backlog drained"
        value={<CountDown at={limit.drained} none={limit.waiting > 0 ? 'not known' : 'nothing waits'} />}
      />
    </div>
  )
}

/** Units used against the budget over time; the time in which starts were denied is shaded. */
export function BudgetChart({
  limit,
  name,
  isOne = true,
}: {
  readonly limit: string
  readonly name?: string
  /** False: the units of all keys together, for which there is no common budget. */
  readonly isOne?: boolean
}): ReactElement {
  const [search] = useFilters()
  const query = useQuery(
    series({ metric: 'units,denied', limit, ...(name !== undefined && { key: name }), from: rangeOf(search['range']) }),
  )
  return (
    <Card title="Units used" hint={isOne ? 'against the budget' : 'by all keys'} actions={<RangeChoice />}>
      <Loaded query={query}>
        {(data) => {
          const units = data.series.find(({ metric }) => metric === 'units')?.points ?? []
          const denied = data.series.find(({ metric }) => metric === 'denied')?.points ?? []
          if (units.length === 0)
            return <Empty title="Nothing was measured yet">The first figures come after ten seconds of work.</Empty>
          return (
            <Chart
              label={`Units of ${limit} used over time`}
              unit={`units in ${data.step / 1000} s`}
              series={[{ name: 'used', points: units, colour: 1, fill: true }]}
              ceiling={data.budget === null || !isOne ? null : { name: 'budget, on average', value: data.budget }}
              shaded={{ name: 'jobs waited', points: denied }}
            />
          )
        }}
      </Loaded>
    </Card>
  )
}

const SORTS: readonly (readonly [KeySort, string])[] = [
  ['waiting', 'most waiting'],
  ['used', 'most used'],
  ['next', 'next start'],
  ['key', 'name'],
]

function Keys({ name }: { readonly name: string }): ReactElement {
  const [search] = useFilters()
  const sort = SORTS.find(([each]) => each === search['sort'])?.[0] ?? 'waiting'
  const query = useQuery(keys(name, sort))
  const columns: readonly Column<Bucket>[] = [
    {
      id: 'key',
      head: 'Key',
      cell: (bucket) => (
        <span className="flex items-center gap-2">
          <span className="truncate">
            <Link
              to="/limits/$limit/keys/$key"
              params={{ limit: name, key: pathKey(bucket.key) }}
              className="font-medium link"
              title={bucket.key ?? 'without a key'}
            >
              {bucket.key === null ? '(without a key)' : bucket.key === '' ? '(empty)' : bucket.key}
            </Link>
          </span>
          <InForce overrides={bucket.overrides.filter(({ key }) => key === bucket.key)} />
        </span>
      ),
    },
    {
      id: 'used',
      head: 'Budget used now',
      className: 'w-56',
      cell: (bucket) => <Used bucket={bucket} name={bucket.key ?? name} />,
    },
    { id: 'waiting', head: 'Waiting', right: true, cell: ({ waiting }) => count(waiting) },
    { id: 'active', head: 'Running', right: true, className: 'max-md:hidden', cell: ({ active }) => count(active) },
    { id: 'next', head: 'Next start', right: true, cell: ({ nextStart }) => <CountDown at={nextStart} /> },
    {
      id: 'drained',
      head: 'Drained',
      right: true,
      className: 'max-md:hidden',
      cell: ({ drained }) => <CountDown at={drained} />,
    },
  ]
  return (
    <Card
      title="Keys"
      flush
      actions={<ChoiceFilter name="sort" label="Order of the keys" value={sort} choices={SORTS} />}
    >
      <Loaded query={query}>
        {({ keys: rows, partial, cursor }) =>
          rows.length === 0 ? (
            <Empty title="No key was used yet">A key appears when a job that needs it arrives.</Empty>
          ) : (
            <>
              <Table
                name={`Keys of ${name}`}
                columns={columns}
                rows={rows}
                id={({ key, worker }) => `${key} ${worker ?? ''}`}
              />
              {(partial || cursor !== null) && (
                <p className="border-t border-line px-4 py-2 text-xs text-faint">
                  The first {count(rows.length)} keys
                  {partial ? ', among the 1,000 with the most waiting jobs' : ''}.
                </p>
              )}
            </>
          )
        }
      </Loaded>
    </Card>
  )
}
