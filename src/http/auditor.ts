import type { Clock } from '../base/clock.ts'
import type { Logger } from '../base/logger.ts'
import type { Remote } from '../remote/remote.ts'

/** A change that a request made. */
export interface Change {
  /** The name of the token, or of another cause. */
  readonly who: string
  readonly tenant: string
  /** The name of the operation. */
  readonly action: string
  readonly subject: string
  readonly requestId?: string
  /** The address that the request came from; null: unknown. */
  readonly from?: string | null
  /** Why, in the words of the caller; null: none were given. */
  readonly reason?: string | null
  /** The request. */
  readonly request: unknown
}

/** The record of a longer request holds its size only. */
const LONGEST_DETAIL = 4096
const LONGEST_REASON = 1000

/** Records every change made through this server: a row of the audit table, and a line of the log. */
export class Auditor {
  readonly #remote: Remote
  readonly #clock: Clock
  readonly #logger: Logger

  constructor(remote: Remote, clock: Clock, logger: Logger) {
    this.#remote = remote
    this.#clock = clock
    this.#logger = logger
  }

  /** Records a change. If the row cannot be written, the log says so and the change stands. */
  async record({ who, tenant, action, subject, requestId, from, reason, request }: Change): Promise<void> {
    const about = { request_id: requestId, from: from ?? undefined, reason: reason?.slice(0, LONGEST_REASON) }
    const text = JSON.stringify({ ...about, asked: request })
    const detail =
      text.length <= LONGEST_DETAIL ? text : JSON.stringify({ ...about, asked_bytes: Buffer.byteLength(text) })
    const fields = { token: who, ...(tenant !== '' && { tenant }), action, subject, requestId }
    this.#logger.info(fields, 'change')
    try {
      const store = await this.#remote.store()
      await store.audit({ atMs: this.#clock.now(), who, tenant, action, subject, detail })
    } catch (error) {
      this.#logger.error({ ...fields, err: error }, 'a change could not be recorded')
    }
  }
}
