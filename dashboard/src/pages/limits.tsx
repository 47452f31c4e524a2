import { useQuery } from '@tanstack/react-query'
import type { ReactElement } from 'react'
import { limits } from '../api/queries.ts'
import type { Limit } from '../api/types.ts'
import { TextFilter, useFilters } from '../ui/filters.tsx'
import { BudgetLink, InForce, Used } from '../ui/limit-parts.tsx'
import { ListPage } from '../ui/list.tsx'
import { Badge, CountDown, Empty } from '../ui/parts.tsx'
import { Spark } from '../ui/spark.tsx'
import type { Column } from '../ui/table.tsx'
import { count, plural } from '../ui/words.ts'

const COLUMNS: readonly Column<Limit>[] = [
  {
    id: 'name',
    head: 'Limit',
    className: 'min-w-32 sm:min-w-44',
    cell: (limit) => (
      <span className="grid leading-tight">
        <span className="flex min-w-0 items-center gap-1.5">
          <span className="truncate">
            <BudgetLink limit={limit.name} />
          </span>
          {limit.paused ? <Badge tone="bad">paused</Badge> : <InForce overrides={limit.overrides} />}
          {limit.unreadable && <Badge tone="bad">unreadable</Badge>}
          {!limit.backend.healthy && <Badge tone="bad">{limit.backend.kind} is away</Badge>}
        </span>
        <span className="truncate text-xs text-faint" title={limit.rule}>
          {limit.rule}
        </span>
      </span>
    ),
  },
  {
    id: 'used',
    head: 'Budget used now',
    className: 'w-24 sm:w-56',
    cell: (limit) =>
      limit.bucket ? (
        <Used bucket={limit.bucket} name={limit.name} />
      ) : (
        <span className="text-soft">
          {plural(limit.keys, 'key')}
          {limit.heldKeys > 0 && <span className="text-warn">, {count(limit.heldKeys)} held back</span>}
        </span>
      ),
  },
  {
    id: 'spark',
    head: 'Starts, 5 min',
    className: 'max-lg:hidden w-32',
    cell: (limit) => <Spark points={limit.spark} label={`Starts of ${limit.name} in the last five minutes`} />,
  },
  {
    id: 'waiting',
    head: 'Waiting',
    right: true,
    cell: (limit) => <span className={limit.waiting > 0 ? 'font-medium' : 'text-faint'}>{count(limit.waiting)}</span>,
  },
  {
    id: 'next',
    head: 'Next start',
    right: true,
    className: 'max-sm:hidden',
    cell: (limit) => <CountDown at={limit.nextStart} />,
  },
  {
    id: 'drained',
    head: 'Drained',
    right: true,
    className: 'max-sm:hidden',
    cell: (limit) => <CountDown at={limit.drained} />,
  },
]

/** Every limit, those that hold most back first. */
export function LimitsPage(): ReactElement {
  const [search] = useFilters()
  const wanted = (search['q'] ?? '').toLowerCase()
  return (
    <ListPage
      title="Limits"
      sub="What each budget allows, how much of it is used, and who waits for it."
      actions={<TextFilter name="q" label="Find a limit" className="w-64 max-w-full" isSearch />}
      query={useQuery(limits)}
      rowsOf={(all) =>
        all
          .filter(({ name, rule }) => `${name} ${rule}`.toLowerCase().includes(wanted))
          .toSorted((a, b) => b.waiting - a.waiting || a.name.localeCompare(b.name))
      }
      empty={(all) =>
        all.length > 0 ? (
          <Empty title="No limit has this in its name or rule" />
        ) : (
          <Empty title="No limit is defined yet">
            A limit appears as soon as a task that uses it starts, or a server reads it from its configuration.
          </Empty>
        )
      }
      columns={COLUMNS}
      id={({ name }) => name}
    />
  )
}
