import type { Clock } from '../../base/clock.ts'
import { SluiceError } from '../../base/errors.ts'
import { persist } from '../../base/persist.ts'
import { settlesWithin } from '../../base/promises.ts'
import { withoutPassword } from '../../base/text.ts'
import { messageOf } from '../../base/thrown.ts'
import { backendLoader } from '../../limiter/open.ts'

/** A backend that is asked answers within this time, and is asked again as long. */
const ASKED_MS = 3000

/**
 * Asks a backend over a connection of its own whether it could grant units now, and again for 3 s: a connection may be
 * slow to make. It leaves no more than an empty place for limits.
 * @throws {SluiceError} `limiter.url.invalid`, `package.missing`; `limiter.backend_down`, which says why
 */
export async function askBackend(address: string, clock: Clock): Promise<void> {
  const backend = await backendLoader(address, null, clock).load()
  try {
    await persist(clock, ASKED_MS, async () => {
      const asked = Promise.resolve(backend.ready?.())
      const inTime = await settlesWithin(clock, asked, ASKED_MS)
      await (inTime ? asked : Promise.reject(new Error(`no answer within ${ASKED_MS} ms`))).catch(refuse)
    })
  } finally {
    backend.close().catch(() => undefined)
  }

  function refuse(cause: unknown): never {
    throw new SluiceError(
      'limiter.backend_down',
      `The backend ${withoutPassword(address)} cannot be used: ${withoutPassword(messageOf(cause))}. Start it, or correct the address, the password or the rights of its user.`,
      { cause, lasts: 'passes' },
    )
  }
}
