import type { Clock } from '../../base/clock.ts'
import type { Context } from './context.ts'
import { hasCompany } from './workers.ts'

const IN_COMPANY_MS = 50
const ALONE_MS = 1000
/** How long a process that wrote without being registered as a worker still counts as company. */
const COMPANY_LASTS_MS = 60_000

/**
 * Calls `listener` when another process has committed (`own`: the workers of this one). SQLite has no bell between processes, but tells cheaply that the file has
 * changed: asked every 50 ms in company, every second alone. A store in memory has no other processes.
 */
export function watchOthers(
  context: Context,
  clock: Clock,
  own: ReadonlySet<number>,
  listener: (change: 'any') => void,
): () => void {
  if (context.db.inMemory) return () => undefined
  const readVersion = (): number => (context.db.get<[number]>('PRAGMA data_version') as [number])[0]
  let version = readVersion()
  let companyUntilUs = 0
  const look = (): void => {
    const seen = readVersion()
    const nowUs = clock.monotonicUs()
    if (seen !== version) companyUntilUs = nowUs + COMPANY_LASTS_MS * 1000
    const company = nowUs < companyUntilUs || hasCompany(context, context.clock.nowUs(), own)
    timer = clock.setTimer(look, company ? IN_COMPANY_MS : ALONE_MS)
    if (seen === version) return
    version = seen
    listener('any')
  }
  let timer = clock.setTimer(look, IN_COMPANY_MS)
  return () => timer.cancel()
}
