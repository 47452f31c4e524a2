import { z } from 'zod'
import type { Timer } from '../../base/clock.ts'
import { type Call, operation, type Operation } from '../operation.ts'
import { CHECK_EVERY_MS, stillAllowed } from '../still-allowed.ts'
import { type ChangeMessage, MISSED_AT_MOST } from './change-channel.ts'
import { seenBy, type Seen } from './seen.ts'

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
          if (++checks % BEAT_EVERY_CHECKS === 0) send(`id: ${channel.latest}\n: alive\n\n`)
          stillAllowed(call, NAME).then(
            (isAllowed) => (isAllowed ? undefined : end('revoked')),
            () => undefined,
          )
        }
        const { channel, stop: unlisten } = changes.listen(seen.tenant, (message) => send(textOf(message, seen)))
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
        const missed = after === null ? [] : channel.after(after)
        send(
          eventOf('hello', {
            now: new Date(server.clock.now()).toISOString(),
            version: server.version,
            started: new Date(server.startedMs).toISOString(),
          }),
        )
        if (!missed || missed.length >= MISSED_AT_MOST) send(`id: ${channel.latest}\n${eventOf('reset', {})}`)
        else if (missed.length > 0) for (const message of missed) send(textOf(message, seen))
        else send(`id: ${channel.latest}\n: listening\n\n`)
      },
      cancel: () => void stop(),
    },
    new CountQueuingStrategy({ highWaterMark: BEHIND_AT_MOST }),
  )
}

/** A message, by the viewer's own names. */
function textOf({ id, atMs, topics }: ChangeMessage, seen: Seen): string {
  const shown = [...topics].map(([topic, names]) => [
    topic,
    names === 'any' || [...names].map((name) => seen.name(name)),
  ])
  const data = { at: new Date(atMs).toISOString(), topics: Object.fromEntries(shown) as object }
  return `id: ${id}\n${eventOf('change', data)}`
}

function eventOf(name: string, data: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
}
