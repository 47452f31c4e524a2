import { z } from 'zod'
import type { LoggedEvent } from '../event-log.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { queryNumber } from '../query-number.ts'
import { invalid } from '../refusal.ts'
import { watchRights } from '../still-allowed.ts'

const Names = z.string().max(1000).optional()
const Query = z.object({
  types: Names,
  queues: Names,
  after: z.string().max(20).regex(/^\d*$/).optional(),
  limit: queryNumber(1, 1000).default(100),
})
const KEEP_ALIVE_MS = 15_000
/** A listener further behind than this many events is disconnected. */
const BEHIND_AT_MOST = 1000
/** A returning listener receives the events that it missed in pages of this many. */
const MISSED_AT_ONCE = 500

/** Lists the latest events, for clients that poll. */
export const listEvents: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/events',
  name: 'listEvents',
  summary: 'Read events behind a cursor, oldest first.',
  query: Query,
  answers: { 200: 'The events, and the cursor for the next request.' },
  async run(call) {
    const { after, limit } = call.query
    const types = listOf(call.query.types)
    const queues = listOf(call.query.queues)
    const matches = (logged: LoggedEvent): boolean =>
      isVisible(call, logged) &&
      (types === null || types.some((type) => matchesType(type, logged.event.type))) &&
      (queues === null || queues.includes(String(logged.event.data['queue'])))
    const { events, bounds } = call.server
    const found = events.after(call.tenant, Number(after ?? 0), matches, limit + 1)
    const shown = fitting(found.slice(0, limit), bounds.answerBytes)
    const hasMore = found.length > shown.length
    // Events that did not match need no second search.
    const seen = hasMore ? shown.at(-1)?.seq : events.latest(call.tenant)
    return ok({ events: shown.map(({ event }) => event), cursor: String(seen), has_more: hasMore })
  },
})

/** The first events, as many as fit into an answer; one always does. */
function fitting(found: readonly LoggedEvent[], bytes: number): readonly LoggedEvent[] {
  let used = 0
  const end = found.findIndex(({ event }, at) => {
    used += Buffer.byteLength(JSON.stringify(event))
    return used > bytes && at > 0
  })
  return end < 0 ? found : found.slice(0, end)
}

const STREAM = 'streamEvents'

/** Streams events as server-sent events. */
export const streamEvents: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/events/stream',
  name: STREAM,
  summary: 'Stream the events of a job or a queue as server-sent events.',
  query: z.object({ channel: z.string().max(300).optional() }),
  answers: { 200: 'A stream of events.' },
  async run(call) {
    const matches = channelOf(call.query.channel)
    const last = call.header('last-event-id')
    if (last !== null && !/^\d{1,20}$/.test(last))
      throw invalid('Last-Event-ID is invalid. Expected the id of an event of this stream.')
    return {
      status: 200,
      body: streamOf(call, (logged) => isVisible(call, logged) && matches(logged), last === null ? null : Number(last)),
      // A proxy that buffers answers would delay events.
      headers: { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache', 'X-Accel-Buffering': 'no' },
    }
  },
})

function streamOf(
  call: Call<unknown, unknown, unknown>,
  matches: (event: LoggedEvent) => boolean,
  after: number | null,
): ReadableStream<Uint8Array> {
  const { server, access, gone } = call
  const encoder = new TextEncoder()
  const letGo = server.heldOpen.take(access, 'streams')
  const signal = AbortSignal.any([gone(), server.closing])
  let stop = (): void => undefined
  // The last event that a returning listener has, until it has all that are kept; null: it receives each as it happens.
  let behind = after
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const send = (text: string): void => controller.enqueue(encoder.encode(text))
        const end = (): void => {
          stop()
          controller.close()
        }
        const sendEvent = (logged: LoggedEvent): void => {
          if (behind !== null || !matches(logged)) return
          if ((controller.desiredSize ?? 0) <= 0) return end()
          send(textOf(logged))
        }
        const beat = (): void => {
          if ((controller.desiredSize ?? 0) > 0) send(': alive\n\n')
          timer = server.clock.setTimer(beat, KEEP_ALIVE_MS)
        }
        const unlisten = server.events.listen(sendEvent)
        const unwatch = watchRights(call, STREAM, end)
        let timer = server.clock.setTimer(beat, KEEP_ALIVE_MS)
        stop = (): void => {
          unlisten()
          unwatch()
          letGo()
          timer.cancel()
          signal.removeEventListener('abort', end)
          stop = (): void => undefined
        }
        signal.addEventListener('abort', end)
        // The first bytes send the headers.
        send(': listening\n\n')
      },
      pull(controller) {
        if (behind === null || (controller.desiredSize ?? 0) < MISSED_AT_ONCE) return
        const missed = server.events.after(call.tenant, behind, matches, MISSED_AT_ONCE)
        behind = missed.length < MISSED_AT_ONCE ? null : (missed.at(-1)?.seq ?? null)
        for (const logged of missed) controller.enqueue(encoder.encode(textOf(logged)))
      },
      cancel: () => stop(),
    },
    new CountQueuingStrategy({ highWaterMark: BEHIND_AT_MOST }),
  )
}

function textOf({ seq, event }: LoggedEvent): string {
  return `id: ${seq}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
}

function channelOf(channel: string | undefined): (event: LoggedEvent) => boolean {
  if (channel === undefined) return () => true
  const [, kind, name] = /^(job|queue):(.+)$/s.exec(channel) ?? []
  if (kind === 'job') return ({ event }) => event.data['job_id'] === name
  if (kind === 'queue') return ({ event }) => event.data['queue'] === name
  throw invalid('channel is invalid. Expected job:ID or queue:NAME; omit it for all events.')
}

function isVisible({ tenant, access }: Call<unknown, unknown, unknown>, { tenant: of, event }: LoggedEvent): boolean {
  const queue = event.data['queue']
  return of === tenant && (typeof queue === 'string' ? access.mayName(queue) : access.everywhere)
}

function matchesType(pattern: string, type: string): boolean {
  return pattern.endsWith('*') ? type.startsWith(pattern.slice(0, -1)) : pattern === type
}

function listOf(text: string | undefined): string[] | null {
  const names = (text ?? '').split(',').filter((name) => name !== '')
  return names.length === 0 ? null : names
}
