import { z } from 'zod'
import type { Duration } from '../../base/duration.ts'
import type { PolicyChange } from '../../policy/limits/override.ts'
import type { Remark } from '../../policy/limits/change-terms.ts'
import type { Call, Operation } from '../operation.ts'
import { keyInPath } from './key-in-path.ts'
import { BucketJson, bucketJson, LimitJson, limitJson } from './limit-json.ts'
import { figuresOf } from './limits.ts'
import { monitorOperation, Name, Reason, Why, WhyQuery } from './monitor-operation.ts'
import { requireOwnLimit, storedLimit } from './seen.ts'
import { Until, untilOf } from './until.ts'

type AnyCall = Call<unknown, unknown, unknown>

const OfLimit = z.object({ name: Name })
const OfKey = z.object({ name: Name, key: z.string().min(1).max(2048) })
const After = z.object({ limit: LimitJson, bucket: BucketJson.nullable() })
const Ended = After.extend({ ended: z.boolean().meta({ description: 'Whether there was one to end.' }) })
const Change = z.union([z.string().min(1).max(200), z.looseObject({})]).meta({
  description: "The changed numbers, such as '5/s' or { rate: 5 }.",
})
const OverrideBody = z.strictObject({ change: Change, until: Until.optional(), reason: Reason })
const PauseBody = z.strictObject({ until: Until.optional(), reason: Reason }).optional()
const PenaltyBody = z.strictObject({ until: Until, reason: Reason })

/** The reach of a change: a limit, and one key of it or all. */
interface Target {
  readonly call: AnyCall
  readonly named: string
  readonly stored: string
  readonly key: string | undefined
}

/** @throws {Refusal} 404; 403 for a limit that all tenants share */
function targetOf(call: Call<{ readonly name: string; readonly key?: string }, unknown, unknown>): Target {
  const { name, key } = call.params
  const stored = storedLimit(call, name)
  requireOwnLimit(call, stored)
  const own = key === undefined ? undefined : keyInPath(key)
  call.concerns(call.server.limits.ownerOf(stored, own))
  return { call, named: name, stored, key: own }
}

async function after({ call, named, stored, key }: Target): Promise<object> {
  call.server.remote.notify()
  const [bucket] = key === undefined ? [] : await call.server.sluice.limits.inspect(stored, key)
  return {
    limit: limitJson(call, await figuresOf(call, stored, named)),
    bucket: bucket ? bucketJson(call, bucket) : null,
  }
}

const CALLER_BY = 255

function remarkOf({ access }: AnyCall, body: { readonly reason?: string | undefined } | undefined): Remark {
  return { by: access.name.slice(0, CALLER_BY), ...(body?.reason !== undefined && { reason: body.reason }) }
}

function untilIn(body: { readonly until?: string | undefined } | undefined): { until?: Date | Duration } {
  return body?.until === undefined ? {} : { until: untilOf(body.until) as Date | Duration }
}

const overrideAt = (path: string, name: string, params: typeof OfLimit | typeof OfKey): Operation =>
  monitorOperation({
    method: 'PUT',
    path,
    name,
    summary: 'Change numbers of a limit, or of one key of it, at once and in every process.',
    params,
    body: OverrideBody,
    answer: After,
    async run(call) {
      const target = targetOf(call)
      const change = call.body.change as PolicyChange | string
      const options = { ...untilIn(call.body), ...remarkOf(call, call.body) }
      await call.server.sluice.limits.override(target.stored, target.key, change, options)
      return after(target)
    },
  })

const clearAt = (path: string, name: string, params: typeof OfLimit | typeof OfKey): Operation =>
  monitorOperation({
    method: 'DELETE',
    path,
    name,
    summary: 'End the override of a limit, or of one key of it.',
    params,
    query: WhyQuery,
    answer: Ended,
    async run(call) {
      const target = targetOf(call)
      const remark = remarkOf(call, call.query)
      const ended = await call.server.sluice.limits.clearOverride(target.stored, target.key, remark)
      return { ended, ...(await after(target)) }
    },
  })

const pauseAt = (path: string, name: string, params: typeof OfLimit | typeof OfKey): Operation =>
  monitorOperation({
    method: 'PUT',
    path,
    name,
    summary: 'Stop all further starts of a limit, or of one key of it.',
    params,
    body: PauseBody,
    answer: After,
    async run(call) {
      const target = targetOf(call)
      const options = { ...untilIn(call.body), ...remarkOf(call, call.body) }
      await call.server.sluice.limits.pause(target.stored, target.key, options)
      return after(target)
    },
  })

const resumeAt = (path: string, name: string, params: typeof OfLimit | typeof OfKey): Operation =>
  monitorOperation({
    method: 'PUT',
    path,
    name,
    summary: 'End the pause of a limit, or of one key of it.',
    params,
    body: Why,
    answer: Ended,
    async run(call) {
      const target = targetOf(call)
      const ended = await call.server.sluice.limits.resume(target.stored, target.key, remarkOf(call, call.body))
      return { ended, ...(await after(target)) }
    },
  })

const penaltyAt = (path: string, name: string, params: typeof OfLimit | typeof OfKey): Operation =>
  monitorOperation({
    method: 'PUT',
    path,
    name,
    summary: 'Close one bucket until an instant, as an answer of 429 does.',
    params,
    body: PenaltyBody,
    answer: After,
    async run(call) {
      const target = targetOf(call)
      const until = untilOf(call.body.until) as Date | Duration
      await call.server.sluice.limits.penalize(target.stored, target.key, until)
      return after(target)
    },
  })

const ON_LIMIT = '/limits/:name'
const ON_KEY = '/limits/:name/keys/:key'
/** The changes of limits at run time. */
export const CHANGES_OF_LIMITS: readonly Operation[] = [
  overrideAt(`${ON_LIMIT}/override`, 'monitorOverrideLimit', OfLimit),
  overrideAt(`${ON_KEY}/override`, 'monitorOverrideKey', OfKey),
  clearAt(`${ON_LIMIT}/override`, 'monitorClearLimit', OfLimit),
  clearAt(`${ON_KEY}/override`, 'monitorClearKey', OfKey),
  pauseAt(`${ON_LIMIT}/pause`, 'monitorPauseLimit', OfLimit),
  pauseAt(`${ON_KEY}/pause`, 'monitorPauseKey', OfKey),
  resumeAt(`${ON_LIMIT}/resume`, 'monitorResumeLimit', OfLimit),
  resumeAt(`${ON_KEY}/resume`, 'monitorResumeKey', OfKey),
  penaltyAt(`${ON_LIMIT}/penalty`, 'monitorPenalizeLimit', OfLimit),
  penaltyAt(`${ON_KEY}/penalty`, 'monitorPenalizeKey', OfKey),
]
