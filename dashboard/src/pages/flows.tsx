import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ReactElement } from 'react'
import { flows } from '../api/queries.ts'
import type { FlowRow } from '../api/types.ts'
import { ChoiceFilter, TextFilter, useFilters } from '../ui/filters.tsx'
import { ListPage } from '../ui/list.tsx'
import { Ago, Empty, None, State } from '../ui/parts.tsx'
import { StartFlow } from '../ui/start.tsx'
import type { Column } from '../ui/table.tsx'
import { count, duration } from '../ui/words.ts'

const COLUMNS: readonly Column<FlowRow>[] = [
  { id: 'state', head: 'State', className: 'w-24', cell: ({ state }) => <State state={state} /> },
  {
    id: 'name',
    head: 'Flow',
    cell: ({ id, name, workflow, kind }) => (
      <Link to="/flows/$id" params={{ id }} className="font-medium link" title={id}>
        {workflow ?? name ?? kind}
      </Link>
    ),
  },
  { id: 'kind', head: 'Kind', className: 'max-md:hidden', cell: ({ kind }) => kind },
  {
    id: 'key',
    head: 'Key',
    className: 'max-md:hidden w-full',
    cell: ({ key, error }) =>
      error !== null ? (
        <span className="text-bad" title={error.message}>
          {error.message}
        </span>
      ) : (
        (key ?? <None />)
      ),
  },
  {
    id: 'jobs',
    head: 'Jobs',
    right: true,
    className: 'max-sm:hidden',
    cell: ({ completed, total }) => `${count(completed)} of ${count(total)}`,
  },
  {
    id: 'took',
    head: 'Took',
    right: true,
    className: 'max-lg:hidden',
    cell: ({ createdAt, finishedAt }) =>
      finishedAt === null ? <None /> : duration(Date.parse(finishedAt) - Date.parse(createdAt)),
  },
  { id: 'created', head: 'Began', right: true, cell: ({ createdAt }) => <Ago at={createdAt} /> },
]

const STATES = ['running', 'completed', 'failed', 'cancelled']

/** Workflows, graphs, machines, chains, groups and batches. */
export function FlowsPage(): ReactElement {
  const [{ workflow, key, state }] = useFilters()
  const filter = { ...(workflow && { workflow }), ...(key && { key }), ...(state && { state }) }
  const query = useInfiniteQuery(flows(filter))
  return (
    <ListPage
      title="Flows"
      sub="Workflows, graphs and machines, and the steps that each is at."
      actions={
        <>
          <TextFilter name="workflow" label="Workflow" className="w-44" isSearch />
          <TextFilter name="key" label="Key" className="w-32" />
          <ChoiceFilter
            name="state"
            label="State"
            value={state ?? ''}
            choices={[['', 'any state'], ...STATES.map((each) => [each, each] as const)]}
          />
          <StartFlow />
        </>
      }
      query={query}
      more={query}
      rowsOf={({ pages }) => pages.flatMap((page) => page.flows)}
      empty={() => (
        <Empty title={Object.keys(filter).length === 0 ? 'There is no flow yet' : 'No flow matches'}>
          {Object.keys(filter).length === 0
            ? 'A flow appears as soon as one is started.'
            : 'Workflow and key are whole names. Take a filter away.'}
        </Empty>
      )}
      columns={COLUMNS}
      id={({ id }) => id}
    />
  )
}
