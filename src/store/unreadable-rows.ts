import { SluiceError } from '../base/errors.ts'
import type { FlowNews } from '../jobs/flow.ts'
import type { Why } from './rejection.ts'
import type { SetAside } from './set-aside.ts'
import type { Claim, Rejected } from './store.ts'

/** What a search for unreadable rows came to. */
export interface Found {
  readonly rejected: readonly Rejected[]
  readonly flows: readonly FlowNews[]
  readonly aside: readonly SetAside[]
}

/** Why a job that cannot be read is given up. */
export const UNREADABLE: Why = { reason: 'unreadable', limit: '', key: '', expectedStartUs: null }

/** How long after a search that found nothing a failing claim is not searched for again: it reads every job that waits. */
const AGAIN_AFTER_MS = 30_000

/** Claims as ever; where one fails, what cannot be read is set aside and it is tried once more. */
export class UnreadableRows {
  readonly #nowMs: () => number
  readonly #find: () => Promise<Found>
  readonly #lost: () => readonly SetAside[]
  readonly #told = new Set<string>()
  #notBeforeMs = 0

  /** @param lost the limits that could not be read when they were last looked at */
  constructor(nowMs: () => number, find: () => Promise<Found>, lost: () => readonly SetAside[]) {
    this.#nowMs = nowMs
    this.#find = find
    this.#lost = lost
  }

  async around(claim: () => Promise<Claim>): Promise<Claim> {
    const claimed = await this.#claim(claim)
    const lost = this.#lost()
    const news = lost.length === 0 ? [] : lost.filter(({ kind, name }) => !this.#told.has(`${kind} ${name}`))
    if (news.length === 0) return claimed
    for (const { kind, name } of news) this.#told.add(`${kind} ${name}`)
    return { ...claimed, aside: [...(claimed.aside ?? []), ...news] }
  }

  async #claim(claim: () => Promise<Claim>): Promise<Claim> {
    try {
      return await claim()
    } catch (error) {
      if (!mayBeUnreadable(error) || this.#nowMs() < this.#notBeforeMs) throw error
      const found = await this.#find().catch((): null => null)
      const count = found === null ? 0 : found.rejected.length + found.aside.length
      if (found === null || count === 0) {
        this.#notBeforeMs = this.#nowMs() + AGAIN_AFTER_MS
        throw error
      }
      const claimed = await claim()
      return {
        ...claimed,
        rejected: [...found.rejected, ...claimed.rejected],
        flows: [...found.flows, ...claimed.flows],
        aside: [...found.aside, ...(claimed.aside ?? [])],
      }
    }
  }
}

/** Whether a store keeps its rows, and one of them may be at fault: what passes by itself, or is final, is not of that kind. */
function mayBeUnreadable(error: unknown): boolean {
  if (!(error instanceof SluiceError)) return error instanceof Error
  return error.code === 'store.io' && error.lasts === undefined
}
