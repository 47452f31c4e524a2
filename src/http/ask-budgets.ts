import type { Clock } from '../base/clock.ts'
import { SluiceError } from '../base/errors.ts'
import { persist } from '../base/persist.ts'
import { settlesWithin } from '../base/promises.ts'
import { withoutPassword } from '../base/text.ts'
import { messageOf } from '../base/thrown.ts'
import { isAddress } from '../limiter/contract/address.ts'
import type { LimitBackend } from '../limiter/contract/limiter.ts'
import { backendLoader } from '../limiter/open.ts'
import { checkStore } from '../store/open.ts'

/** A backend that is asked answers within this time, and is asked again as long. */
const ASKED_MS = 3000
/** The first words of a Redis, and of its client, that no waiting changes: a password, a right, another server. */
const REFUSES = /^(?:NOAUTH|WRONGPASS|NOPERM|NOPROTO|DENIED|ERR (?!max number of clients)|Unknown RESP type)/
/** Those of a NATS, by the names of its errors. */
const NATS_REFUSES = new Set(['AuthorizationError', 'PermissionViolationError', 'JetStreamNotEnabled', 'ProtocolError'])
/** Those of PostgreSQL and of TLS, by their codes. */
const CODE_REFUSES = /^(?:0A|25|28|3D|42)...$|CERT|VERIFY|SSL/

/**
 * Asks the backend of a server's budgets whether it could grant units now: an address over a connection of its own, for
 * 3 s, since a connection may be slow to make. It leaves no more than an empty place for limits. A store is checked.
 * @throws {SluiceError} `limiter.url.invalid`, `package.missing`; `limiter.backend_down` and those of a store, which
 * pass where the backend is merely away
 */
export async function askBudgets(budgets: string | LimitBackend, clock: Clock): Promise<void> {
  const { load } = backendLoader(budgets, null, clock)
  if (typeof budgets !== 'string') return ask(budgets, 'of the budgets', clock)
  if (!isAddress(budgets)) return askStore(budgets, clock)
  const backend = await load()
  try {
    await ask(backend, withoutPassword(budgets), clock)
  } finally {
    backend.close().catch(() => undefined)
  }
}

function ask(backend: LimitBackend, name: string, clock: Clock): Promise<void> {
  return persist(clock, ASKED_MS, async () => {
    const asked = Promise.resolve(backend.ready?.())
    const inTime = await settlesWithin(clock, asked, ASKED_MS)
    await (inTime ? asked : Promise.reject(new Error(`no answer within ${ASKED_MS} ms`))).catch((cause: unknown) => {
      throw down(name, cause)
    })
  })
}

function down(name: string, cause: unknown): SluiceError {
  const why = withoutPassword(messageOf(cause))
  // An error of ours says what to do.
  const remedy =
    cause instanceof SluiceError ? '' : '. Start it, or correct the address, the password or the rights of its user.'
  return new SluiceError('limiter.backend_down', `The backend ${name} cannot be used: ${why}${remedy}`, {
    cause,
    lasts: refuses(cause) ? undefined : 'passes',
  })
}

async function askStore(url: string, clock: Clock): Promise<void> {
  try {
    await checkStore(url, clock)
  } catch (error) {
    if (!(error instanceof SluiceError) || error.lasts === undefined || !refuses(error.cause)) throw error
    throw new SluiceError(error.code, error.message, { cause: error.cause })
  }
}

/** Whether the server is there and refuses, for the same reason at each later call. */
function refuses(cause: unknown): boolean {
  if (cause instanceof SluiceError) return cause.lasts === undefined
  if (!(cause instanceof Error)) return false
  const code = 'code' in cause ? String(cause.code) : ''
  return REFUSES.test(cause.message) || NATS_REFUSES.has(cause.name) || CODE_REFUSES.test(code)
}
