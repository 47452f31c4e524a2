import { z } from 'zod'
import { HIGHEST_PRIORITY, LOWEST_PRIORITY } from '../base/priority.ts'

/** A priority, as in code. */
export const Priority: z.ZodInt = z.int().min(LOWEST_PRIORITY).max(HIGHEST_PRIORITY)
