import { z } from 'zod'
import type { Timer } from '../../base/clock.ts'
import { type Call, operation, type Operation } from '../operation.ts'
import { CHECK_EVERY_MS, stillAllowed } from '../still-allowed.ts'
import type { ChangeMessage } from './change-feed.ts'
import { seenBy, type Seen } from './seen.ts'
import { splitName } from '../tenant.ts'

type AnyCall = Call<unknown, unknown, unknown>

/** A quiet stream shows that it lives after so many checks of its rights. */
const BEAT_EVERY_CHECKS = 5
/** A viewer further behind than this many messages is disconnected. */
const BEHIND_AT_MOST = 100
const NAME = 'monitorStream'

/** Streams changes. */
export const streamChanges: Operation = operation({
  method: 'GET',
  path: '/monitor/v1/stream',
  name: NAME,
  summary: 'Stream what has changed as server-sent events, at most 4 a second.',
  api: 'monitor',
  query: z.strictObject({}),
  answers: { 200: 'A stream of the events hello, change, reset and end.' },
  run: async (call) => ({
    status: 200,
    body: streamOf(call, call.header('last-event-id')),
    // A proxy that buffers answers would delay events.
    headers: { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store', 'X-Accel-Buffering': 'no' },
  }),
})

function streamOf(call: AnyCall, after: string | null): ReadableStream<Uint8Array> {
  const { server, access, gone } = call
  const { changes } = server.monitor
  const seen = seenBy(call)
  const encoder = new TextEncoder()
  const letGo = server.heldOpen.take(access, 'streams')
  const signal = AbortSignal.any([gone(), server.closing])
  let stop = (): boolean => false
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        let timer: Timer
        let checks = 0
        const send = (text: string): void => {
          if (text === '') return
          if ((controller.desiredSize ?? 0) <= 0) return end(null)
          controller.enqueue(encoder.encode(text))
        }
        const end = (reason: 'revoked' | 'closing' | null): void => {
          if (!stop()) return
          if (reason) controller.enqueue(encoder.encode(eventOf('end', { reason })))
          controller.close()
        }
        const aborted = (): void => end(server.closing.aborted ? 'closing' : null)
        const check = (): void => {
          timer = server.clock.setTimer(check, CHECK_EVERY_MS)
          if (++checks % BEAT_EVERY_CHECKS === 0) send(`id: ${changes.latest}\n: alive\n\n`)
          stillAllowed(call, NAME).then(
            (isAllowed) => (isAllowed ? undefined : end('revoked')),
            () => undefined,
          )
        }
        const unlisten = changes.listen((message) => send(textOf(message, seen)))
        timer = server.clock.setTimer(check, CHECK_EVERY_MS)
        let isOpen = true
        stop = () => {
          if (!isOpen) return false
          isOpen = false
          unlisten()
          letGo()
          timer.cancel()
          signal.removeEventListener('abort', aborted)
          return true
        }
        signal.addEventListener('abort', aborted)
        const missed = after === null ? [] : changes.after(after)
        send(
          eventOf('hello', {
            now: new Date(server.clock.now()).toISOString(),
            version: server.version,
            started: new Date(server.startedMs).toISOString(),
          }),
        )
        if (!missed || missed.length >= BEHIND_AT_MOST / 2) send(`id: ${changes.latest}\n${eventOf('reset', {})}`)
        else if (missed.length > 0) for (const message of missed) send(textOf(message, seen))
        else send(`id: ${changes.latest}\n: listening\n\n`)
      },
      cancel: () => void stop(),
    },
    new CountQueuingStrategy({ highWaterMark: BEHIND_AT_MOST }),
  )
}

/** A message for a viewer; empty: the viewer sees nothing of it. The next sign of life moves the viewer's place. */
function textOf({ id, atMs, topics }: ChangeMessage, seen: Seen): string {
  const shown: Record<string, unknown> = {}
  for (const [topic, names] of topics) {
    const own = names === 'any' ? true : namesOf(topic, names, seen)
    if (own === true || own.length > 0) shown[topic] = own
  }
  if (Object.keys(shown).length === 0) return ''
  return `id: ${id}\n${eventOf('change', { at: new Date(atMs).toISOString(), topics: shown })}`
}

function namesOf(topic: string, names: ReadonlyMap<string, string | null>, seen: Seen): string[] | true {
  const own = [...names].filter(([, owner]) => owner === null || seen.owns(owner))
  // A flow has no owner in its name.
  if (own.some(([name, owner]) => (owner === null && seen.tenant !== null) || splitName(name).name === '')) return true
  return own.map(([name]) => (topic === 'jobs' ? name : seen.name(name)))
}

function eventOf(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
}
