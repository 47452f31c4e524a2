import { z } from 'zod'
import { didYouMean } from '../../base/nearest.ts'
import { isName, isStorable, LONGEST_NAME as LONGEST } from '../../base/text.ts'
import { Delay, JobParams, NOT_STORABLE } from '../ojs/schemas.ts'
import { queryNumber } from '../query-number.ts'

/** A text by which a caller names something of a flow. */
export const FlowName: z.ZodString = z
  .string()
  .refine((text) => isName(text), `Invalid input: expected 1 to ${LONGEST} characters`)
  .meta({ minLength: 1, maxLength: LONGEST })

/** A text that a list is searched for. */
export function soughtText(longest: number): z.ZodOptional<z.ZodString> {
  return z.string().max(longest).refine(isStorable, NOT_STORABLE).optional()
}

/** An object of which every unknown member is refused. */
export function strict<S extends z.core.$ZodLooseShape>(shape: S): z.ZodObject<S, z.core.$strict> {
  return z.strictObject(shape, {
    error: (issue) => {
      const [name] = (issue as { readonly keys?: readonly string[] }).keys ?? []
      if (issue.code !== 'unrecognized_keys' || name === undefined) return undefined
      const known = Object.keys(shape)
      const hint = didYouMean(name, known)
      const expected = known.length === 0 ? 'no members' : known.join(', ')
      return `${name.slice(0, 60)} is unknown${hint}Expected ${expected}.`
    },
  })
}

/** Parameters of a path that names a workflow. */
export const WorkflowParams: z.ZodType<{ workflow: string }> = z.object({ workflow: z.string().max(LONGEST) })

/** Parameters of a path that names a flow. */
export const FlowParams: z.ZodType<{ id: string }> = JobParams

/** Parameters of a path that names a signal of a flow. */
export const SignalParams: z.ZodType<{ id: string; name: string }> = z.object({
  id: z.string().max(64),
  name: FlowName,
})

/** The key of a flow. A tenant's keys are its own. */
export const FlowKey: z.ZodString = FlowName.regex(/^[^/]*$/, 'Invalid input: expected no slash')

/** The start of a flow. */
export const Start: z.ZodType<{
  input?: unknown
  key?: string | undefined
  delay?: string | number | null | undefined
}> = strict({
  input: z.unknown(),
  key: FlowKey.optional(),
  delay: Delay.nullish(),
})

/** A signal. */
export const Signal: z.ZodType<{ payload?: unknown; once?: string | undefined }> = strict({
  payload: z.unknown().optional(),
  once: FlowName.optional(),
})

/** A retry. */
export const Retry: z.ZodType<{ from?: string | undefined } | undefined> = strict({
  from: FlowName.optional(),
}).optional()

/** A body without members, or none. */
export const Nothing: z.ZodType<Record<string, never> | undefined> = strict({}).optional()

const States = z.string().max(100)

/** A page of flows. */
export const FlowsQuery: z.ZodType<{
  workflow?: string | undefined
  key?: string | undefined
  state?: string | undefined
  limit: number
  cursor?: string | undefined
}> = z.object({
  workflow: soughtText(LONGEST),
  key: soughtText(LONGEST),
  state: States.optional().meta({ description: 'One state, or several with commas between them.' }),
  limit: queryNumber(1, 100).default(25),
  cursor: z.string().max(64).optional().meta({ description: 'The next_cursor of the page before.' }),
})
