import { z } from 'zod'
import { misspelt } from '../misspelt.ts'
import { type JobJson, NewJobJson, Options, type OptionsJson, refuseOptions, requireInOptions } from './schemas.ts'
import { type ElementJson, isNested, type NestedJson, type StepJson, type WorkflowJson } from './workflow-plan.ts'

const STEPS_AT_MOST = 1_000
const JOBS_AT_MOST = 10_000
const DEEPEST = 8

const Name = z.string().min(1).max(255).nullish()
const StepId = z.string().min(1).max(255)
const Defaults = z.looseObject({ options: Options.nullish(), name: Name })

/** The options for each job of a workflow. */
interface Common {
  name?: string | null | undefined
  options?: OptionsJson | null | undefined
}

/** Reads a value by the schema that fits its shape, and reports that schema's errors. */
function chosen<T>(schemaOf: (value: unknown) => z.ZodType<T>, description: string): z.ZodType<T> {
  return z
    .unknown()
    .transform((value, ctx): T => {
      const schema = schemaOf(value)
      const read = schema.safeParse(value)
      if (read.success) {
        reportMisspelt(schema, value, ctx)
        return read.data
      }
      ctx.issues.push(...(read.error.issues as z.core.$ZodRawIssue[]))
      return z.NEVER
    })
    .meta({ description })
}

/** Reports members that a schema behind a transformation would drop, since outer checks do not see them. */
function reportMisspelt(schema: z.ZodType, value: unknown, ctx: z.core.ParsePayload): void {
  const slip = misspelt(schema, value)
  if (slip) ctx.issues.push({ code: 'custom', input: value, path: [...slip.path], message: slip.message })
}

const SECOND = 'A job, or a chain, a group or a batch with on_success in its place.'
const Job: z.ZodType<JobJson> = NewJobJson
const Callbacks = z.strictObject({
  on_success: NewJobJson.nullish(),
  on_failure: NewJobJson.nullish(),
  on_complete: NewJobJson.nullish(),
})

function element(depth: number): z.ZodType<ElementJson> {
  return chosen<ElementJson>((value) => (isNested(value) ? nested(depth + 1) : Job), SECOND)
}

function nested(depth: number): z.ZodType<NestedJson> {
  if (depth > DEEPEST)
    return z.custom<NestedJson>(() => false, {
      error: `Workflows are nested too deep. Expected at most ${DEEPEST} levels.`,
    })
  const jobs = z.array(element(depth)).min(1).max(JOBS_AT_MOST)
  const steps = z.array(element(depth)).min(1).max(STEPS_AT_MOST)
  return z
    .discriminatedUnion('type', [
      z.looseObject({ type: z.literal('chain'), steps }),
      z.looseObject({ type: z.literal('group'), jobs }),
      z.looseObject({ type: z.literal('batch'), jobs, callbacks: Callbacks }),
    ])
    .check(refuseOptions)
}

/**
 * A step that names those that it waits for. The name is the step's, not the job's; SDKs mark callbacks in the options.
 */
const Step: z.ZodType<StepJson> = z
  .looseObject({ id: StepId, depends_on: z.array(StepId).max(STEPS_AT_MOST).nullish() })
  .transform((step, ctx): StepJson => {
    const { id, depends_on: before, ...json } = step
    const { callback_type: callback, ...options } = (json['options'] ?? {}) as Record<string, unknown>
    const read = NewJobJson.safeParse(json['options'] === undefined ? json : { ...json, options })
    if (!read.success) {
      ctx.issues.push(...(read.error.issues as z.core.$ZodRawIssue[]))
      return z.NEVER
    }
    reportMisspelt(NewJobJson, json, ctx)
    const callbackOptions = callback === undefined ? {} : { options: { ...read.data.options, callback_type: callback } }
    return { ...read.data, ...callbackOptions, id, depends_on: before }
  })

const Forms = z.discriminatedUnion('type', [
  Defaults.extend({ type: z.literal('chain'), steps: z.array(element(0)).min(1).max(STEPS_AT_MOST) }),
  Defaults.extend({ type: z.literal('group'), jobs: z.array(element(0)).min(1).max(JOBS_AT_MOST) }),
  Defaults.extend({
    type: z.literal('batch'),
    jobs: z.array(element(0)).min(1).max(JOBS_AT_MOST),
    callbacks: Callbacks,
  }),
  Defaults.extend({ type: z.literal('graph'), steps: z.array(Step).min(1).max(STEPS_AT_MOST) }),
])

/** A workflow of a request, with a name and options for each of its jobs. */
export const Workflow: z.ZodType<WorkflowJson & Common> = z.preprocess(
  (body, ctx) => {
    if (!isStepsAlone(body)) return body
    const graph = { ...body, type: 'graph' }
    reportMisspelt(Forms, graph, ctx)
    return graph
  },
  Forms.check((ctx) => requireInOptions(ctx, ctx.value.options)),
)

/** The form of section 14.1 of the binding has no type: its steps name their dependencies. */
function isStepsAlone(body: unknown): body is object {
  return typeof body === 'object' && body !== null && !('type' in body) && 'steps' in body
}
