import type { z } from 'zod'
import { misspelt } from './misspelt.ts'
import { invalid, Refusal } from './refusal.ts'

const ISSUES_SHOWN = 5

/**
 * Reads a part of a request by its schema; without a schema it reads nothing. A misspelt member is refused, because
 * the server would silently ignore it.
 *
 * @param all whether every unknown member is refused
 * @throws {Refusal} 400, 422
 */
export function checked(
  schema: z.ZodType | null,
  value: unknown,
  part: 'path' | 'query' | 'body',
  all = false,
): unknown {
  if (!schema) return undefined
  const result = schema.safeParse(value)
  const slip = result.success ? misspelt(schema, value, all) : null
  if (slip) {
    const path = slip.path.map(String).join('.').slice(0, 200)
    throw invalid(`${path} ${slip.message}`, { details: { issues: [{ path, message: slip.message }] } })
  }
  if (result.success) return result.data
  const { issues } = result.error
  if (part === 'body' && value === undefined)
    throw new Refusal(400, 'invalid_payload', 'The request has no body. Expected a JSON object.')
  const words = issues.slice(0, ISSUES_SHOWN).map(wordsOf).join('; ')
  const first = issues[0]
  const details = {
    issues: issues.slice(0, ISSUES_SHOWN).map((issue) => ({ path: pathOf(issue), message: issue.message })),
  }
  // A retry policy of the right shape with impossible numbers is refused as 422.
  if (first?.path.includes('retry') && first.code !== 'invalid_type' && first.code !== 'unrecognized_keys')
    throw new Refusal(422, 'invalid_request', words, { type: 'validation_error', details })
  throw invalid(words, { details })
}

/** Writes an issue behind the path of its member; one of the whole value has no path. */
export function wordsOf(issue: z.core.$ZodIssue): string {
  const path = pathOf(issue)
  return path === '' ? issue.message : `${path}: ${issue.message}`
}

function pathOf(issue: z.core.$ZodIssue): string {
  return issue.path.map(String).join('.').slice(0, 200)
}
