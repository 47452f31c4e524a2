import {
  infiniteQueryOptions,
  keepPreviousData,
  QueryClient,
  queryOptions,
  useMutation,
  useQueryClient,
  type UseMutationResult,
} from '@tanstack/react-query'
import { ApiError, type Change, change, pathKey, read } from './client.ts'
import type { operations } from './openapi.ts'

/** The members of a query, any of which may be absent. */
type QueryOf<Operation> = Operation extends { readonly parameters: { readonly query?: infer Q } } ? Q : never
export type SeriesQuery = NonNullable<QueryOf<operations['monitorSeries']>>
export type JobQuery = NonNullable<QueryOf<operations['monitorCountJobs']>>
export type TaskWindow = NonNullable<NonNullable<QueryOf<operations['monitorTasks']>>['window']>
export type KeySort = NonNullable<NonNullable<QueryOf<operations['monitorLimitKeys']>>['sort']>

/** Changes come by the stream; this is for what no change tells, such as a budget that refills. */
const SLOW_MS = 5000

export function createQueries(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 1000,
        gcTime: 120_000,
        refetchOnWindowFocus: true,
        retry: (failures, error) => failures < 2 && (!(error instanceof ApiError) || error.status >= 500),
        // The stream says when the server is back.
        networkMode: 'always',
      },
      mutations: { retry: false, networkMode: 'always' },
    },
  })
}

export const me = queryOptions({
  queryKey: ['me'],
  queryFn: ({ signal }) => read('/me', {}, signal),
  staleTime: Infinity,
  refetchOnWindowFocus: false,
})

export const overview = queryOptions({
  queryKey: ['overview'],
  queryFn: ({ signal }) => read('/overview', {}, signal),
  refetchInterval: SLOW_MS,
})

export const limits = queryOptions({
  queryKey: ['limits'],
  queryFn: async ({ signal }) => (await read('/limits', {}, signal)).limits,
  refetchInterval: 2000,
})

export const limit = (name: string) =>
  queryOptions({
    queryKey: ['limit', name],
    queryFn: ({ signal }) => read('/limits/{name}', { params: { name } }, signal),
    refetchInterval: 2000,
  })

export const keys = (name: string, sort: KeySort) =>
  queryOptions({
    queryKey: ['keys', name, sort],
    queryFn: ({ signal }) => read('/limits/{name}/keys', { params: { name }, query: { sort, limit: 200 } }, signal),
    refetchInterval: 2000,
    placeholderData: keepPreviousData,
  })

export const key = (name: string, value: string | null) =>
  queryOptions({
    queryKey: ['key', name, value],
    queryFn: ({ signal }) =>
      read('/limits/{name}/keys/{key}', { params: { name, key: pathKey(value) }, query: { limit: 25 } }, signal),
    refetchInterval: 2000,
  })

export const series = (query: SeriesQuery) =>
  queryOptions({
    queryKey: ['series', query],
    queryFn: ({ signal }) => read('/series', { query }, signal),
    refetchInterval: 10_000,
    placeholderData: keepPreviousData,
  })

const PAGE_OF_JOBS = 100

export const jobs = (query: JobQuery) =>
  infiniteQueryOptions({
    queryKey: ['jobs', query],
    queryFn: ({ pageParam, signal }) =>
      read(
        '/jobs',
        { query: { ...query, size: PAGE_OF_JOBS, ...(pageParam !== '' && { cursor: pageParam }) } },
        signal,
      ),
    initialPageParam: '',
    getNextPageParam: ({ cursor }) => cursor,
    placeholderData: keepPreviousData,
  })

export const jobCount = (query: JobQuery) =>
  queryOptions({
    queryKey: ['count', query],
    queryFn: ({ signal }) => read('/jobs/count', { query }, signal),
  })

export const job = (id: string) =>
  queryOptions({ queryKey: ['job', id], queryFn: ({ signal }) => read('/jobs/{id}', { params: { id } }, signal) })

export const bulks = queryOptions({
  queryKey: ['bulk'],
  queryFn: async ({ signal }) => (await read('/bulk', {}, signal)).bulks,
})

export const bulk = (id: string) =>
  queryOptions({
    queryKey: ['bulk', id],
    queryFn: ({ signal }) => read('/bulk/{id}', { params: { id } }, signal),
    refetchInterval: ({ state }) => (state.data && state.data.state !== 'running' ? false : 500),
  })

export const queues = queryOptions({
  queryKey: ['queues'],
  queryFn: async ({ signal }) => (await read('/queues', {}, signal)).queues,
  refetchInterval: SLOW_MS,
})

export const schedules = queryOptions({
  queryKey: ['schedules'],
  queryFn: async ({ signal }) => (await read('/schedules', {}, signal)).schedules,
  refetchInterval: SLOW_MS,
})

export const workers = queryOptions({
  queryKey: ['workers'],
  queryFn: async ({ signal }) => (await read('/workers', {}, signal)).workers,
  refetchInterval: SLOW_MS,
})

export const tasks = (window: TaskWindow) =>
  queryOptions({
    queryKey: ['tasks', window],
    queryFn: async ({ signal }) => (await read('/tasks', { query: { window } }, signal)).tasks,
    refetchInterval: 10_000,
    placeholderData: keepPreviousData,
  })

const PAGE_OF_ENTRIES = 200

export const audit = (query: NonNullable<QueryOf<operations['monitorAudit']>>) =>
  infiniteQueryOptions({
    queryKey: ['audit', query],
    queryFn: ({ pageParam, signal }) =>
      read(
        '/audit',
        { query: { ...query, size: PAGE_OF_ENTRIES, ...(pageParam !== '' && { cursor: pageParam }) } },
        signal,
      ),
    initialPageParam: '',
    getNextPageParam: ({ cursor }) => cursor,
    placeholderData: keepPreviousData,
  })

export const flows = (query: NonNullable<QueryOf<operations['monitorFlows']>>) =>
  infiniteQueryOptions({
    queryKey: ['flows', query],
    queryFn: ({ pageParam, signal }) =>
      read(
        '/flows',
        { query: { ...query, size: PAGE_OF_ENTRIES, ...(pageParam !== '' && { cursor: pageParam }) } },
        signal,
      ),
    initialPageParam: '',
    getNextPageParam: ({ cursor }) => cursor,
    refetchInterval: SLOW_MS,
    placeholderData: keepPreviousData,
  })

export const flow = (id: string) =>
  queryOptions({
    queryKey: ['flow', id],
    queryFn: ({ signal }) => read('/flows/{id}', { params: { id } }, signal),
    refetchInterval: 2000,
  })

/** One change, after which everything on the screen is asked again. */
export function useChange<T = unknown>(): UseMutationResult<T, Error, Change> {
  const queries = useQueryClient()
  return useMutation<T, Error, Change>({
    mutationFn: (made) => change<T>(made),
    // The dialog that made the change need not wait for what is behind it.
    onSettled: () => void queries.invalidateQueries(),
  })
}
