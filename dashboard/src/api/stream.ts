import type { QueryClient } from '@tanstack/react-query'
import { useSyncExternalStore } from 'react'
import { setServerTime } from '../ui/clock.ts'
import { requestHeaders, urlOf } from './client.ts'

/** `lost` has the time since which no server answered. */
export type Connection =
  | { readonly state: 'connecting' | 'live' | 'asking' | 'ended' }
  | { readonly state: 'lost'; readonly since: number }

let connection: Connection = { state: 'connecting' }
const listeners = new Set<() => void>()

function set(next: Connection): void {
  if (connection.state === next.state) return
  connection = next
  for (const listener of listeners) listener()
}

export function useConnection(): Connection {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => connection,
  )
}

/** The server writes a line at least every 10 s; silence of twice that is a lost connection. */
const SILENT_MS = 25_000
const ASKING_MS = 2000
const RETRY_MS = [250, 500, 1000, 2000, 3000]

type Topics = Readonly<Record<string, true | readonly string[]>>

/** The first part of each query's key that a topic makes old. */
const CONCERNED: Record<string, readonly string[]> = {
  jobs: ['jobs', 'job', 'overview', 'key', 'keys', 'count'],
  limits: ['limits', 'limit', 'keys', 'key', 'overview'],
  queues: ['queues', 'overview'],
  flows: ['flows', 'flow'],
  schedules: ['schedules'],
  workers: ['workers', 'overview'],
  bulk: ['bulk', 'jobs', 'overview'],
  series: ['series', 'tasks', 'overview'],
  audit: ['audit'],
}

/** Follows the server's changes until the signal aborts, and has every query on the screen that they concern asked again. */
export async function follow(queries: QueryClient, signal: AbortSignal): Promise<void> {
  let last: string | null = null
  for (let tries = 0; !signal.aborted;) {
    const silence = new AbortController()
    try {
      const response: Response = await fetch(urlOf({ path: '/stream' }), {
        headers: { ...requestHeaders(), Accept: 'text/event-stream', ...(last !== null && { 'Last-Event-ID': last }) },
        signal: AbortSignal.any([signal, silence.signal]),
        cache: 'no-store',
      })
      if (response.status === 401 || response.status === 403) {
        set({ state: 'ended' })
        await queries.invalidateQueries({ queryKey: ['me'] })
        return
      }
      // A proxy that lets no stream through: the page asks again and again.
      if (response.status === 404) {
        set({ state: 'asking' })
        await pause(ASKING_MS, signal)
        void queries.invalidateQueries()
        continue
      }
      if (!response.ok || response.body === null) throw new Error(`The stream was answered ${response.status}.`)
      // The page asks again for all that may have changed while no stream was open.
      if (connection.state === 'lost') void queries.invalidateQueries()
      set({ state: 'live' })
      tries = 0
      for await (const message of messages(response.body, silence)) {
        if (message.id !== null) last = message.id
        if (message.event === 'end' && (message.data as { reason?: string }).reason === 'revoked') {
          set({ state: 'ended' })
          await queries.invalidateQueries({ queryKey: ['me'] })
          return
        }
        if (message.event === 'hello') setServerTime(Date.parse((message.data as { now?: string }).now ?? ''))
        if (message.event === 'reset') void queries.invalidateQueries()
        if (message.event === 'change') refresh(queries, (message.data as { topics?: Topics }).topics ?? {})
      }
    } catch {
      // However the stream ended, the page says below that it is not live.
    }
    if (signal.aborted) return
    set({ state: 'lost', since: Date.now() })
    await pause(RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)] ?? 3000, signal)
  }
}

/** At most one round of questions in this time: a busy store changes all the time. */
const ROUND_MS = 400
/** So long a round waits for its answers. */
const ANSWERED_WITHIN_MS = 10_000
let concerned = new Set<string>()
let round: ReturnType<typeof setTimeout> | undefined

/** Asks again what is on the screen and concerned; the rest is asked when it is shown. */
function refresh(queries: QueryClient, topics: Topics): void {
  for (const topic of Object.keys(topics)) for (const name of CONCERNED[topic] ?? []) concerned.add(name)
  round ??= setTimeout(() => void ask(queries), ROUND_MS)
}

/** One round. It waits for its answers: the next one would end questions under way, and a slow server would answer none. */
async function ask(queries: QueryClient): Promise<void> {
  const names = concerned
  concerned = new Set()
  const answered = queries.invalidateQueries({ predicate: ({ queryKey }) => names.has(String(queryKey[0])) })
  await Promise.race([answered, pause(ANSWERED_WITHIN_MS)])
  round = undefined
  if (concerned.size > 0) refresh(queries, {})
}

interface Message {
  readonly id: string | null
  readonly event: string
  readonly data: unknown
}

async function* messages(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  silence: AbortController,
): AsyncGenerator<Message> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  let timer = setTimeout(() => silence.abort(), SILENT_MS)
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      clearTimeout(timer)
      timer = setTimeout(() => silence.abort(), SILENT_MS)
      const blocks = (rest + value.replaceAll('\r\n', '\n')).split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) {
        const message = messageOf(block)
        if (message) yield message
      }
    }
  } finally {
    clearTimeout(timer)
    void reader.cancel().catch(() => undefined)
  }
}

function messageOf(block: string): Message | null {
  const fields = new Map<string, string>()
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':')
    if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 1).trimStart())
  }
  const data = fields.get('data')
  if (data === undefined) return null
  try {
    return { id: fields.get('id') ?? null, event: fields.get('event') ?? 'message', data: JSON.parse(data) }
  } catch {
    return null
  }
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal?.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
  })
}
