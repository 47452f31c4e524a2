import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactElement, useEffect, useMemo, useState } from 'react'
import { jobCount, jobs, limits, overview, schedules, tasks } from '../api/queries.ts'
import type { JobRow } from '../api/types.ts'
import type { Search } from '../app/router.tsx'
import { BulkBar, type Selection } from '../ui/bulk-bar.tsx'
import { TextFilter, useFilters } from '../ui/filters.tsx'
import { JobLine } from '../ui/job-line.tsx'
import { ListPage } from '../ui/list.tsx'
import { Ago, Button, Empty, State } from '../ui/parts.tsx'
import { SavedViews } from '../ui/saved-views.tsx'
import { EnqueueJob } from '../ui/start.tsx'
import type { Column } from '../ui/table.tsx'
import { count, plural, shortCount } from '../ui/words.ts'

/** The filters of the API, each a member of the URL. */
const FILTERS = [
  'q',
  'state',
  'queue',
  'task',
  'tag',
  'limit',
  'key',
  'error',
  'uniqueKey',
  'flow',
  'schedule',
  'since',
  'until',
  'meta',
] as const
const STATES = [
  'available',
  'active',
  'scheduled',
  'retryable',
  'pending',
  'completed',
  'discarded',
  'cancelled',
] as const satisfies readonly JobRow['state'][]

/** The filter of the API: it has one member for each name of metadata, and a key only with its limit. */
function filterOf(search: Search): Record<string, string> {
  return Object.fromEntries(
    FILTERS.flatMap((name): (readonly [string, string])[] => {
      const value = search[name]
      if (!value || (name === 'key' && !search['limit'])) return []
      if (name !== 'meta') return [[name, value]]
      const [member = '', ...rest] = value.split('=')
      return member === '' || rest.length === 0 ? [] : [[`meta.${member}`, rest.join('=')]]
    }),
  )
}

/** Search, filters and changes of all that match. */
export function JobsPage(): ReactElement {
  const [search] = useFilters()
  const filter = useMemo(() => filterOf(search), [search])
  const key = JSON.stringify(filter)
  const [selection, setSelection] = useState<Selection>({ kind: 'none' })
  useEffect(() => setSelection({ kind: 'none' }), [key])
  const query = useInfiniteQuery(jobs(filter))
  const counted = useQuery(jobCount(filter))
  const isFiltered = Object.keys(filter).length > 0
  return (
    <ListPage
      title="Jobs"
      sub={
        counted.data
          ? `${counted.data.exact ? '' : 'at least '}${plural(counted.data.count, 'job')}${isFiltered ? ` ${counted.data.count === 1 ? 'matches' : 'match'}` : ''}`
          : counted.error
            ? '–'
            : 'Counting…'
      }
      actions={
        <>
          <SavedViews />
          <EnqueueJob />
        </>
      }
      filters={<Filters search={search} />}
      query={query}
      more={query}
      rowsOf={({ pages }) => pages.flatMap((page) => page.jobs)}
      bar={(rows) => (
        <BulkBar selection={selection} setSelection={setSelection} filter={filter} rows={rows} total={counted.data} />
      )}
      empty={() => (
        <Empty title={isFiltered ? 'No job matches' : 'There is no job yet'}>
          {isFiltered ? 'Take a filter away, or look further back.' : 'A job appears here as soon as one is enqueued.'}
        </Empty>
      )}
      note={({ pages }) => {
        const looked = pages.at(-1)?.looked
        return looked && !looked.complete
          ? `; looked through ${count(looked.rows)} jobs, and more may match further back`
          : ''
      }}
      columns={columnsOf(selection, setSelection)}
      id={({ id }) => id}
      selected={({ id }) => isSelected(selection, id)}
    />
  )
}

function isSelected(selection: Selection, id: string): boolean {
  return selection.kind === 'all' || (selection.kind === 'some' && selection.ids.has(id))
}

function columnsOf(selection: Selection, setSelection: (next: Selection) => void): readonly Column<JobRow>[] {
  const toggle = (id: string): void => {
    const ids = new Set(selection.kind === 'some' ? selection.ids : [])
    if (!ids.delete(id)) ids.add(id)
    setSelection(ids.size === 0 ? { kind: 'none' } : { kind: 'some', ids })
  }
  return [
    {
      id: 'select',
      head: <span className="sr-only">Select</span>,
      className: 'w-10',
      cell: ({ id, task }) => (
        <input
          type="checkbox"
          className="block size-4 accent-(--accent)"
          aria-label={`Select ${task} ${id}`}
          checked={isSelected(selection, id)}
          disabled={selection.kind === 'all'}
          onChange={() => toggle(id)}
        />
      ),
    },
    { id: 'state', head: 'State', className: 'w-24', cell: ({ state }) => <State state={state} /> },
    {
      id: 'task',
      head: 'Task',
      cell: ({ id, task }) => (
        <Link to="/jobs/$id" params={{ id }} className="font-medium link" title={`${task} · ${id}`}>
          {task}
        </Link>
      ),
    },
    {
      id: 'what',
      head: 'Payload',
      className: 'max-md:hidden w-full',
      cell: (job) => <JobLine job={job} />,
    },
    { id: 'queue', head: 'Queue', className: 'max-lg:hidden', cell: ({ queue }) => <span title={queue}>{queue}</span> },
    {
      id: 'attempt',
      head: 'Attempt',
      right: true,
      className: 'max-lg:hidden',
      cell: ({ attempt, maxAttempts }) => `${attempt} of ${maxAttempts}`,
    },
    { id: 'created', head: 'Arrived', right: true, cell: ({ createdAt }) => <Ago at={createdAt} /> },
  ]
}

function Filters({ search }: { readonly search: Search }): ReactElement {
  const [, set] = useFilters()
  const counts = useQuery(overview).data
  const knownTasks = useQuery(tasks('1h')).data?.map(({ task }) => task)
  const knownLimits = useQuery(limits).data?.map(({ name }) => name)
  const knownSchedules = useQuery(schedules).data?.map(({ name }) => name)
  const [more, setMore] = useState(
    ['error', 'uniqueKey', 'flow', 'schedule', 'until', 'tag', 'meta'].some((name) => search[name]),
  )
  const states = new Set((search['state'] ?? '').split(',').filter(Boolean))
  const active = FILTERS.filter((name) => search[name])
  return (
    <div className="mb-3 grid gap-3">
      <div className="flex flex-wrap gap-2">
        <TextFilter
          name="q"
          label="Search"
          placeholder="Search id, unique key, payload, error, metadata"
          className="min-w-56 grow"
          isSearch
        />
        <TextFilter name="task" label="task" options={knownTasks} className="w-40 max-sm:grow" />
        <TextFilter
          name="queue"
          label="queue"
          options={counts?.queues.map(({ name }) => name)}
          className="w-32 max-sm:grow"
        />
        <TextFilter name="limit" label="limit" options={knownLimits} className="w-32 max-sm:grow" />
        <TextFilter
          name="key"
          label="key"
          placeholder={search['limit'] ? 'key' : 'key of a limit'}
          disabled={!search['limit']}
          className="w-32 max-sm:grow"
        />
        <TextFilter name="since" label="since" placeholder="since, e.g. 1h" className="w-32 max-sm:grow" />
        <Button kind="quiet" aria-expanded={more} onClick={() => setMore(!more)}>
          {more ? 'Fewer' : 'More'} filters
        </Button>
        {active.length > 0 && (
          <Button kind="quiet" onClick={() => set(Object.fromEntries(FILTERS.map((name) => [name, undefined])))}>
            Clear
          </Button>
        )}
      </div>
      {more && (
        <div className="flex flex-wrap gap-2">
          <TextFilter name="until" label="until" placeholder="until, e.g. 10m" className="w-32 max-sm:grow" />
          <TextFilter name="tag" label="tag" className="w-32 max-sm:grow" />
          <TextFilter
            name="meta"
            label="metadata"
            placeholder="metadata, e.g. region=eu"
            className="w-52 max-sm:grow"
          />
          <TextFilter name="error" label="text in the error" className="w-44 max-sm:grow" />
          <TextFilter name="uniqueKey" label="unique key" className="w-40 max-sm:grow" />
          <TextFilter name="schedule" label="schedule" options={knownSchedules} className="w-32 max-sm:grow" />
          <TextFilter name="flow" label="flow id" className="w-44 max-sm:grow" />
        </div>
      )}
      <div role="group" aria-label="States" className="flex flex-wrap gap-1.5">
        {STATES.map((state) => (
          <button
            key={state}
            type="button"
            aria-pressed={states.has(state)}
            onClick={() => {
              const next = new Set(states)
              if (!next.delete(state)) next.add(state)
              set({ state: next.size === 0 ? undefined : STATES.filter((each) => next.has(each)).join(',') })
            }}
            className="numbers inline-flex h-7 items-center gap-1.5 rounded-full border border-line-strong bg-surface px-3 text-xs text-soft hover:text-ink aria-pressed:border-accent aria-pressed:bg-accent-soft aria-pressed:font-medium aria-pressed:text-accent"
          >
            {state}
            {counts && <span className="text-faint">{shortCount(counts.states[state])}</span>}
          </button>
        ))}
      </div>
    </div>
  )
}
