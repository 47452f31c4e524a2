import { isFinal, mayPass } from '../../base/errors.ts'
import type { FlowEnd } from '../../engine/define/flow-entry.ts'

/** How long a run waits that could not ask its store. */
export const REST_MS = 1000

/** The end of a run that could not ask its store: it is made again a little later, and uses no attempt. */
export const AGAIN_LATER: FlowEnd = { kind: 'snoozed', delayUs: REST_MS * 1000 }

/** Whether the store is in trouble. The code of the flow is not to blame, so nothing of the flow may fail by it. */
export function isStoreTrouble(error: unknown): boolean {
  return mayPass(error) || isFinal(error)
}

/** The end of a run that failed, if that was the store's trouble. @throws any other error */
export function againLater(error: unknown): FlowEnd {
  if (isStoreTrouble(error)) return AGAIN_LATER
  throw error
}
