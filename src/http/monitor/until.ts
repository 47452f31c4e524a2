import { z } from 'zod'
import { parseInstant } from '../../base/instant.ts'

/** An instant (RFC 3339) or a duration from now, as a text. */
export const Until: z.ZodType<string> = z
  .string()
  .min(1)
  .max(64)
  .meta({ description: 'An instant in RFC 3339, or a time from now such as 5m.' })

/** A date for an instant, the text itself for a duration: the engine reads it. */
export function untilOf(text: string): Date | string {
  const ms = parseInstant(text)
  return Number.isNaN(ms) ? text : new Date(ms)
}
