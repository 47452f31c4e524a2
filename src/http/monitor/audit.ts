import { z } from 'zod'
import { fromJsonText } from '../../base/json-value.ts'
import type { Operation } from '../operation.ts'
import { queryNumber } from '../query-number.ts'
import { invalidCursor } from '../refusal.ts'
import { monitorOperation, Time } from './monitor-operation.ts'
import { seenBy } from './seen.ts'

interface Detail {
  readonly request_id?: string
  readonly from?: string
  readonly reason?: string
  readonly asked?: unknown
}

const Instant = z.iso.datetime({ offset: true })

/** Lists the changes that people have made. */
export const listAudit: Operation = monitorOperation({
  method: 'GET',
  path: '/audit',
  name: 'monitorAudit',
  summary: 'List who changed what, when, from where and why, newest first. Changes are kept for 90 days.',
  query: z.strictObject({
    who: z.string().max(255).optional(),
    action: z.string().max(255).optional(),
    subject: z.string().max(1000).optional().meta({ description: 'The beginning of the path that was asked.' }),
    since: Instant.optional(),
    until: Instant.optional(),
    size: queryNumber(1, 1000).default(100),
    cursor: z.string().max(64).optional(),
  }),
  answer: z.object({
    entries: z.array(
      z.object({
        id: z.number(),
        at: Time,
        who: z.string(),
        tenant: z.string(),
        action: z.string(),
        subject: z.string(),
        from: z.string().nullable(),
        reason: z.string().nullable(),
        request: z.unknown(),
        requestId: z.string().nullable(),
      }),
    ),
    cursor: z.string().nullable(),
  }),
  async run(call) {
    const { size, cursor, who, action, subject, since, until } = call.query
    const { tenant } = seenBy(call)
    const rows = await (
      await call.server.remote.store()
    ).auditTrail({
      before: cursor === undefined ? null : readCursor(cursor),
      tenant,
      limit: size + 1,
      who: who ?? null,
      action: action ?? null,
      subject: subject ?? null,
      sinceMs: since === undefined ? null : Date.parse(since),
      untilMs: until === undefined ? null : Date.parse(until),
    })
    const shown = rows.slice(0, size)
    const last = shown.at(-1)
    return {
      entries: shown.map(({ atMs, detail, ...row }) => {
        const {
          request_id: requestId = null,
          from = null,
          reason = null,
          asked = null,
        } = (fromJsonText(detail, {}) as Detail | null) ?? {}
        const request = call.server.monitor.redact(asked)
        return { ...row, at: new Date(atMs).toISOString(), from, reason, request, requestId }
      }),
      cursor: last && rows.length > size ? Buffer.from(`a${last.id}`).toString('base64url') : null,
    }
  },
})

/** @throws {Refusal} 400 */
function readCursor(cursor: string): number {
  const [, before] = /^a(\d{1,15})$/.exec(Buffer.from(cursor, 'base64url').toString('latin1')) ?? []
  if (before === undefined) throw invalidCursor()
  return Number(before)
}
