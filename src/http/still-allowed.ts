import { type Access, requireRight } from './access.ts'
import type { Call } from './operation.ts'
import { rightOf } from './rights.ts'

type AnyCall = Call<unknown, unknown, unknown>

/** The rights of a caller are read again at this interval while an answer stays open. */
export const CHECK_EVERY_MS = 2000

/** Whether the caller still has the same rights. An application that cannot tell now is asked again. */
export async function stillAllowed({ again, access }: AnyCall, operation: string): Promise<boolean> {
  try {
    const now = await again()
    requireRight(now, rightOf(operation))
    return termsOf(now) === termsOf(access)
  } catch (error) {
    return !(typeof error === 'object' && error !== null && 'status' in error)
  }
}

/** Calls `lost` once the caller has other rights than at the start of an answer that stays open. @returns ends that */
export function watchRights(call: AnyCall, operation: string, lost: () => void): () => void {
  const { clock } = call.server
  let isOver = false
  const look = async (): Promise<void> => {
    timer = clock.setTimer(again, CHECK_EVERY_MS)
    if ((await stillAllowed(call, operation)) || isOver) return
    stop()
    lost()
  }
  const again = (): void => void look()
  let timer = clock.setTimer(again, CHECK_EVERY_MS)
  const stop = (): void => {
    isOver = true
    timer.cancel()
  }
  return stop
}

function termsOf({ name, tenant, allTenants, everywhere, queues, scopes }: Access): string {
  return JSON.stringify([name, tenant, allTenants, everywhere, queues, [...scopes].sort()])
}
