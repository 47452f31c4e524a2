import { z } from 'zod'
import { isStorable } from '../../base/text.ts'
import { NOT_STORABLE } from '../ojs/schemas.ts'
import { type Call, type Method, operation, type Operation, type Out } from '../operation.ts'

type Schema = z.ZodType | undefined

/** The parts of an operation of the monitor. Its queries and bodies are strict objects. */
interface MonitorSpec<P extends Schema, Q extends Schema, B extends Schema> {
  readonly method: Method
  /** Behind `/monitor/v1`. */
  readonly path: string
  readonly name: string
  readonly summary: string
  readonly repeats?: readonly string[]
  readonly params?: P
  readonly query?: Q
  readonly body?: B
  /** The schema of its success. */
  readonly answer: z.ZodType
  /** Default: 200. */
  readonly status?: number
  /** False: the store had it already. The route answers 200 then, and the audit has no entry. Default: true. */
  readonly isNew?: (answer: Readonly<Record<string, unknown>>) => boolean
  run(call: Call<Out<P>, Out<Q>, Out<B>>): Promise<object>
}

/** A query without members. */
const NOTHING = z.strictObject({})

/** Defines an operation of the monitor: it answers its JSON, with the status of a success. */
export function monitorOperation<
  P extends Schema = undefined,
  Q extends Schema = undefined,
  B extends Schema = undefined,
>(spec: MonitorSpec<P, Q, B>): Operation {
  const { method, path, name, summary, status = 200, isNew = () => true, answer, params, query = NOTHING, body } = spec
  return operation({
    method,
    path: `/monitor/v1${path}`,
    name,
    summary,
    api: 'monitor',
    ...(spec.repeats && { repeats: spec.repeats }),
    ...(params && { params }),
    query,
    ...(body && { body }),
    answer,
    answers: { [status]: summary, ...(spec.isNew && { 200: 'It was there before: nothing was stored.' }) },
    run: async (call) => {
      const found = await spec.run(call as unknown as Call<Out<P>, Out<Q>, Out<B>>)
      return isNew({ ...found }) ? { status, body: found } : { status: 200, body: found, unchanged: true }
    },
  })
}

/** The name of something, in a path. */
export const Name: z.ZodType<string> = z.string().min(1).max(1024).refine(isStorable, NOT_STORABLE)

/** Why a change is made: kept in the record of changes. */
export const Reason: z.ZodOptional<z.ZodString> = z
  .string()
  .max(1000)
  .optional()
  .meta({ description: 'Why: kept in the record of changes.' })

/** The body of a change that has nothing to say but why. */
export const Why: z.ZodOptional<z.ZodObject<{ reason: typeof Reason }, z.core.$strict>> = z
  .strictObject({ reason: Reason })
  .optional()

/** The query of a change without a body. */
export const WhyQuery: z.ZodObject<{ reason: typeof Reason }, z.core.$strict> = z.strictObject({ reason: Reason })

/** A time in an answer: RFC 3339. */
export const Time: z.ZodString = z.string().meta({ format: 'date-time' })
/** A time in an answer, or none. */
export const TimeOrNull: z.ZodNullable<z.ZodString> = Time.nullable()

/** Formats a date of a view. */
export function timeOf(date: Date): string
export function timeOf(date: Date | null | undefined): string | null
export function timeOf(date: Date | null | undefined): string | null {
  return date?.toISOString() ?? null
}
