import {
  keepPreviousData,
  QueryClient,
  queryOptions,
  useMutation,
  useQueryClient,
  type UseMutationResult,
} from '@tanstack/react-query'
import { ApiError, call, get, keyPath, type Query } from './client.ts'
import type {
  AuditEntry,
  Bulk,
  FlowRow,
  FlowView,
  JobView,
  Keys,
  KeyView,
  Limit,
  Me,
  Overview,
  Queue,
  Schedule,
  Series,
  TaskRow,
  Worker,
} from './types.ts'

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

const one = encodeURIComponent

export const me = queryOptions({
  queryKey: ['me'],
  queryFn: ({ signal }) => get<Me>('/me', {}, signal),
  staleTime: Infinity,
  refetchOnWindowFocus: false,
})

export const overview = queryOptions({
  queryKey: ['overview'],
  queryFn: ({ signal }) => get<Overview>('/overview', {}, signal),
  refetchInterval: SLOW_MS,
})

export const limits = queryOptions({
  queryKey: ['limits'],
  queryFn: async ({ signal }) => (await get<{ limits: Limit[] }>('/limits', {}, signal)).limits,
  refetchInterval: 2000,
})

export const limit = (name: string) =>
  queryOptions({
    queryKey: ['limit', name],
    queryFn: ({ signal }) => get<Limit>(`/limits/${one(name)}`, {}, signal),
    refetchInterval: 2000,
  })

export const keys = (name: string, sort: string) =>
  queryOptions({
    queryKey: ['keys', name, sort],
    queryFn: ({ signal }) => get<Keys>(`/limits/${one(name)}/keys`, { sort, limit: 200 }, signal),
    refetchInterval: 2000,
  })

export const key = (name: string, value: string | null) =>
  queryOptions({
    queryKey: ['key', name, value],
    queryFn: ({ signal }) => get<KeyView>(`/limits/${one(name)}/keys/${keyPath(value)}`, { limit: 100 }, signal),
    refetchInterval: 2000,
  })

export const series = (query: Query) =>
  queryOptions({
    queryKey: ['series', query],
    queryFn: ({ signal }) => get<Series>('/series', query, signal),
    refetchInterval: 10_000,
    placeholderData: keepPreviousData,
  })

export const jobCount = (query: Query) =>
  queryOptions({
    queryKey: ['count', query],
    queryFn: ({ signal }) => get<{ count: number; exact: boolean }>('/jobs/count', query, signal),
  })

export const job = (id: string) =>
  queryOptions({ queryKey: ['job', id], queryFn: ({ signal }) => get<JobView>(`/jobs/${one(id)}`, {}, signal) })

export const bulks = queryOptions({
  queryKey: ['bulk'],
  queryFn: async ({ signal }) => (await get<{ bulks: Bulk[] }>('/bulk', {}, signal)).bulks,
})

export const queues = queryOptions({
  queryKey: ['queues'],
  queryFn: async ({ signal }) => (await get<{ queues: Queue[] }>('/queues', {}, signal)).queues,
  refetchInterval: SLOW_MS,
})

export const schedules = queryOptions({
  queryKey: ['schedules'],
  queryFn: async ({ signal }) => (await get<{ schedules: Schedule[] }>('/schedules', {}, signal)).schedules,
  refetchInterval: SLOW_MS,
})

export const workers = queryOptions({
  queryKey: ['workers'],
  queryFn: async ({ signal }) => (await get<{ workers: Worker[] }>('/workers', {}, signal)).workers,
  refetchInterval: SLOW_MS,
})

export const tasks = (window: string) =>
  queryOptions({
    queryKey: ['tasks', window],
    queryFn: async ({ signal }) => (await get<{ tasks: TaskRow[] }>('/tasks', { window }, signal)).tasks,
    refetchInterval: 10_000,
  })

export const audit = (query: Query) =>
  queryOptions({
    queryKey: ['audit', query],
    queryFn: async ({ signal }) => (await get<{ entries: AuditEntry[] }>('/audit', query, signal)).entries,
  })

export const flows = (query: Query) =>
  queryOptions({
    queryKey: ['flows', query],
    queryFn: ({ signal }) => get<{ flows: FlowRow[]; cursor: string | null }>('/flows', query, signal),
    refetchInterval: SLOW_MS,
    placeholderData: keepPreviousData,
  })

export const flow = (id: string) =>
  queryOptions({
    queryKey: ['flow', id],
    queryFn: ({ signal }) => get<FlowView>(`/flows/${one(id)}`, {}, signal),
    refetchInterval: 2000,
  })

/** One change, after which everything on the screen is asked again. */
export interface Change {
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly body?: unknown
  readonly query?: Query
}

export function useChange<T = unknown>(): UseMutationResult<T, Error, Change> {
  const queries = useQueryClient()
  return useMutation<T, Error, Change>({
    mutationFn: ({ method, path, body, query }) =>
      call<T>(method, path, { ...(body !== undefined && { body }), ...(query && { query }) }),
    onSettled: () => queries.invalidateQueries(),
  })
}
