import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import type { ReactElement } from 'react'
import { flows } from '../api/queries.ts'
import type { FlowRow } from '../api/types.ts'
import type { Search } from '../app/router.tsx'
import { Ago, Card, Empty, PageHead, State } from '../ui/parts.tsx'
import { Loaded } from '../ui/states.tsx'
import { type Column, Table } from '../ui/table.tsx'
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
        (key ?? <span className="text-faint">–</span>)
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
      finishedAt === null ? (
        <span className="text-faint">–</span>
      ) : (
        duration(Date.parse(finishedAt) - Date.parse(createdAt))
      ),
  },
  { id: 'created', head: 'Began', right: true, cell: ({ createdAt }) => <Ago at={createdAt} /> },
]

const STATES = ['running', 'completed', 'failed', 'cancelled']

/** Workflows, graphs, machines, chains, groups and batches. */
export function FlowsPage(): ReactElement {
  const search: Search = useSearch({ strict: false })
  const navigate = useNavigate()
  const query = useQuery(flows({ workflow: search['workflow'], key: search['key'], state: search['state'], size: 200 }))
  const set = (name: string, value: string): void =>
    void navigate({ to: '.', search: (before: Search) => ({ ...before, [name]: value || undefined }), replace: true })
  return (
    <>
      <PageHead
        title="Flows"
        sub="Workflows, graphs and machines, and the steps that each is at."
        actions={
          <>
            <input
              type="search"
              className="field w-44"
              placeholder="workflow   /"
              aria-label="Workflow"
              defaultValue={search['workflow']}
              onChange={(event) => set('workflow', event.target.value)}
            />
            <select
              className="field"
              aria-label="State"
              value={search['state'] ?? ''}
              onChange={(event) => set('state', event.target.value)}
            >
              <option value="">any state</option>
              {STATES.map((state) => (
                <option key={state}>{state}</option>
              ))}
            </select>
          </>
        }
      />
      <Card flush>
        <Loaded query={query}>
          {({ flows: rows }) =>
            rows.length === 0 ? (
              <Empty title="No flow matches">A flow appears as soon as one is started.</Empty>
            ) : (
              <Table name="Flows" columns={COLUMNS} rows={rows} id={({ id }) => id} />
            )
          }
        </Loaded>
      </Card>
    </>
  )
}
