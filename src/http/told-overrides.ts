import { authorInWords, type JobExplanation } from '../engine/api/job-explanation.ts'
import type { OverrideView } from '../engine/api/override-view.ts'
import type { Call } from './operation.ts'

type AnyCall = Call<unknown, unknown, unknown>
type Remarked = Pick<OverrideView, 'limit' | 'key' | 'by' | 'reason'> & Partial<Pick<OverrideView, 'endedBy'>>

/**
 * An override or a pause for a caller. A tenant learns that a limit of all tenants is paused and until when, but neither
 * the author nor the reason: those are for the operators of the server. Of its own key it learns all.
 */
export function toldOverride<O extends Remarked>(call: AnyCall, override: O): O {
  return isTold(call, override) ? override : { ...override, by: null, reason: null, endedBy: null }
}

/** An explanation for a caller. */
export function toldExplanation(call: AnyCall, found: JobExplanation): JobExplanation {
  if (found.overrides.every((each) => isTold(call, each))) return found
  const overrides = found.overrides.map((each) => toldOverride(call, each))
  return { ...found, overrides, words: withoutAuthors(call, found.words, found.overrides) }
}

/** Words about a flow and its children, for a caller. */
export async function toldWords(call: AnyCall, words: string): Promise<string> {
  const { limits, sluice } = call.server
  if (call.tenant === '' || !words.includes('is paused')) return words
  let told = words
  for (const name of limits.names().filter((each) => limits.isShared(each)))
    told = withoutAuthors(call, told, await sluice.limits.overrides(name))
  return told
}

function withoutAuthors(call: AnyCall, words: string, overrides: readonly OverrideView[]): string {
  return overrides
    .filter((each) => authorInWords(each) !== '' && !isTold(call, each))
    .reduce((text, each) => text.replaceAll(`is paused${authorInWords(each)} until`, 'is paused until'), words)
}

function isTold({ tenant, server }: AnyCall, { limit, key }: Remarked): boolean {
  const { limits } = server
  return tenant === '' || !limits.isShared(limit) || (limits.isKeyed(limit) && key === tenant)
}
