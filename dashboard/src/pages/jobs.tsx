import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { type ReactElement, useEffect, useMemo, useState } from 'react'
import { get } from '../api/client.ts'
import { useOffers } from '../api/offers.ts'
import { jobCount, overview, tasks } from '../api/queries.ts'
import type { JobPage, JobRow } from '../api/types.ts'
import type { Search } from '../app/router.tsx'
import { BulkBar, type Selection } from '../ui/bulk-bar.tsx'
import { JobLine } from '../ui/job-line.tsx'
import { Ago, Button, Card, Empty, PageHead, State } from '../ui/parts.tsx'
import { SavedViews } from '../ui/saved-views.tsx'
import { Loaded } from '../ui/states.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { count, plural, shortCount } from '../ui/words.ts'

/** The filters of the API, each a member of the URL. */
export const FILTERS = [
  'q',
  'state',
  'queue',
  'task',
  'tag',
  'limit',
  'key',
  'error',
  'unique',
  'flow',
  'schedule',
  'since',
  'until',
] as const
const STATES = ['available', 'active', 'scheduled', 'retryable', 'pending', 'completed', 'discarded', 'cancelled']
const SIZE = 100

export function filterOf(search: Search): Record<string, string> {
  return Object.fromEntries(FILTERS.flatMap((name) => (search[name] ? [[name, search[name]] as const] : [])))
}

/** Search, filters and changes of all that match. */
export function JobsPage(): ReactElement {
  const search: Search = useSearch({ strict: false })
  const filter = useMemo(() => filterOf(search), [search])
  const key = JSON.stringify(filter)
  const [selection, setSelection] = useState<Selection>({ kind: 'none' })
  useEffect(() => setSelection({ kind: 'none' }), [key])
  const query = useInfiniteQuery({
    queryKey: ['jobs', filter],
    queryFn: ({ pageParam, signal }) =>
      get<JobPage>('/jobs', { ...filter, size: SIZE, ...(pageParam !== '' && { cursor: pageParam }) }, signal),
    initialPageParam: '',
    getNextPageParam: ({ cursor }) => cursor,
    placeholderData: (before) => before,
  })
  const counted = useQuery(jobCount(filter))
  return (
    <>
      <PageHead
        title="Jobs"
        sub={
          counted.data
            ? `${counted.data.exact ? '' : 'at least '}${plural(counted.data.count, 'job')} match`
            : 'Counting…'
        }
        actions={<SavedViews />}
      />
      <Filters search={search} />
      <Card flush>
        <Loaded query={query}>
          {({ pages }) => {
            const rows = pages.flatMap(({ jobs }) => jobs)
            const looked = pages.at(-1)?.looked
            return (
              <>
                {rows.length > 0 && (
                  <BulkBar
                    selection={selection}
                    setSelection={setSelection}
                    filter={filter}
                    rows={rows}
                    total={counted.data}
                  />
                )}
                {rows.length === 0 ? (
                  <Empty title={Object.keys(filter).length === 0 ? 'There is no job yet' : 'No job matches'}>
                    {Object.keys(filter).length === 0
                      ? 'A job appears here as soon as one is enqueued.'
                      : 'Take a filter away, or look further back.'}
                  </Empty>
                ) : (
                  <Table
                    name="Jobs"
                    columns={columnsOf(selection, setSelection)}
                    rows={rows}
                    id={({ id }) => id}
                    selected={({ id }) => isSelected(selection, id)}
                  />
                )}
                <footer className="flex flex-wrap items-center justify-between gap-3 border-t border-line px-4 py-2 text-xs text-faint">
                  <span>
                    {count(rows.length)} shown
                    {looked &&
                      !looked.complete &&
                      `; looked through ${count(looked.rows)} jobs, and more may match further back`}
                  </span>
                  {query.hasNextPage && (
                    <Button onClick={() => void query.fetchNextPage()} disabled={query.isFetchingNextPage}>
                      {query.isFetchingNextPage ? 'Loading…' : 'Show more'}
                    </Button>
                  )}
                </footer>
              </>
            )
          }}
        </Loaded>
      </Card>
    </>
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
  const navigate = useNavigate()
  const counts = useQuery(overview).data
  const offers = useOffers()
  const known = useQuery({ ...tasks('1h'), enabled: offers('GET /tasks') }).data
  const [more, setMore] = useState(['error', 'unique', 'flow', 'schedule', 'until', 'tag'].some((name) => search[name]))
  const set = (changed: Search): void =>
    void navigate({ to: '/jobs', search: (before: Search) => ({ ...before, ...changed }), replace: true })
  const states = new Set((search['state'] ?? '').split(',').filter(Boolean))
  const active = FILTERS.filter((name) => search[name])
  return (
    <div className="mb-3 grid gap-3">
      <div className="flex flex-wrap gap-2">
        <Text
          name="q"
          search={search}
          set={set}
          type="search"
          placeholder="Search id, unique key, payload, error, metadata   /"
          className="min-w-56 grow"
        />
        <Text
          name="task"
          search={search}
          set={set}
          placeholder="task"
          options={known?.map(({ task }) => task)}
          className="w-40 max-sm:grow"
        />
        <Text
          name="queue"
          search={search}
          set={set}
          placeholder="queue"
          options={counts?.queues.map(({ name }) => name)}
          className="w-32 max-sm:grow"
        />
        <Text name="limit" search={search} set={set} placeholder="limit" className="w-32 max-sm:grow" />
        <Text name="key" search={search} set={set} placeholder="key" className="w-32 max-sm:grow" />
        <Text name="since" search={search} set={set} placeholder="since, e.g. 1h" className="w-32 max-sm:grow" />
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
          <Text name="until" search={search} set={set} placeholder="until, e.g. 10m" className="w-32 max-sm:grow" />
          <Text name="tag" search={search} set={set} placeholder="tag" className="w-32 max-sm:grow" />
          <Text name="error" search={search} set={set} placeholder="text in the error" className="w-44 max-sm:grow" />
          <Text name="unique" search={search} set={set} placeholder="unique key" className="w-40 max-sm:grow" />
          <Text name="schedule" search={search} set={set} placeholder="schedule" className="w-32 max-sm:grow" />
          <Text name="flow" search={search} set={set} placeholder="flow id" className="w-44 max-sm:grow" />
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
            {counts && <span className="text-faint">{shortCount(counts.states[state] ?? 0)}</span>}
          </button>
        ))}
      </div>
    </div>
  )
}

const TYPING_MS = 250

/** A filter as text. The URL follows once the typing rests. */
function Text({
  name,
  search,
  set,
  placeholder,
  className,
  type = 'text',
  options,
}: {
  readonly name: string
  readonly search: Search
  readonly set: (changed: Search) => void
  readonly placeholder: string
  readonly className: string
  readonly type?: string
  readonly options?: readonly string[] | undefined
}): ReactElement {
  const now = search[name] ?? ''
  const [value, setValue] = useState(now)
  useEffect(() => setValue(now), [now])
  useEffect(() => {
    if (value.trim() === now) return undefined
    const timer = setTimeout(() => set({ [name]: value.trim() || undefined }), TYPING_MS)
    return () => clearTimeout(timer)
    // `set` is new in every picture, and does the same.
  }, [value])
  const list = options && options.length > 0 ? `filter-${name}` : undefined
  return (
    <>
      <input
        type={type}
        className={`field ${className}`}
        placeholder={placeholder}
        aria-label={placeholder.split(',')[0]}
        value={value}
        list={list}
        onChange={(event) => setValue(event.target.value)}
      />
      {list && (
        <datalist id={list}>
          {options?.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      )}
    </>
  )
}
