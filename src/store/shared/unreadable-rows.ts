import { SluiceError } from '../../base/errors.ts'
import type { FlowNews } from '../../jobs/flow.ts'
import type { Why } from './rejection.ts'
import type { SetAside } from '../contract/set-aside.ts'
import type { Claim, Rejected } from '../contract/store.ts'

/** The result of a search for unreadable rows. */
export interface Found {
  readonly rejected: readonly Rejected[]
  readonly flows: readonly FlowNews[]
  readonly aside: readonly SetAside[]
  /** Rows that were repaired and need no report. */
  readonly mended: number
}

/** The reason for discarding an unreadable job. */
export const UNREADABLE: Why = { reason: 'unreadable', limit: '', key: '', expectedStartUs: null }

/**
 * After a search without a result the next failure starts no search for this time, since a search reads every waiting
 * job.
 */
const AGAIN_AFTER_MS = 30_000

/** Runs a store's calls. If one fails, the store sets unreadable rows aside and tries the call once more. */
export class UnreadableRows {
  readonly #nowMs: () => number
  readonly #find: () => Promise<Found>
  readonly #lost: () => readonly SetAside[]
  readonly #told = new Set<string>()
  /** Rows found, which the next claim reports. */
  #found: Found[] = []
  #notBeforeMs = 0
  #searching: Promise<boolean> | null = null
  /** The number of searches that found something. */
  #searches = 0

  /** @param lost the limits that were unreadable at the last read */
  constructor(nowMs: () => number, find: () => Promise<Found>, lost: () => readonly SetAside[]) {
    this.#nowMs = nowMs
    this.#find = find
    this.#lost = lost
  }

  /** Runs a claim, and reports the rows set aside since the last one. */
  async around(claim: () => Promise<Claim>): Promise<Claim> {
    const claimed = await this.mend(claim)
    const lost = this.#lost()
    if (lost.length === 0 && this.#found.length === 0) return claimed
    const found = this.#found.splice(0)
    const news = lost.filter(({ kind, name }) => !this.#told.has(`${kind} ${name}`))
    for (const { kind, name } of news) this.#told.add(`${kind} ${name}`)
    return {
      ...claimed,
      rejected: [...found.flatMap((each) => each.rejected), ...claimed.rejected],
      flows: [...found.flatMap((each) => each.flows), ...claimed.flows],
      aside: [...found.flatMap((each) => each.aside), ...(claimed.aside ?? []), ...news],
    }
  }

  /** @param work must be repeatable after a failure: its writes were rolled back */
  async mend<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#searches
    try {
      return await work()
    } catch (error) {
      if (!mayBeUnreadable(error)) throw error
      // A simultaneous failure may already have finished the search.
      if (before === this.#searches && !(await this.#search())) throw error
      return work()
    }
  }

  /** Returns true if it set aside or repaired anything; simultaneous callers share one search. */
  #search(): Promise<boolean> {
    if (this.#nowMs() < this.#notBeforeMs) return Promise.resolve(false)
    this.#searching ??= this.#setAside().finally(() => (this.#searching = null))
    return this.#searching
  }

  async #setAside(): Promise<boolean> {
    const found = await this.#find().catch((): null => null)
    if (found === null || found.rejected.length + found.aside.length + found.mended === 0) {
      this.#notBeforeMs = this.#nowMs() + AGAIN_AFTER_MS
      return false
    }
    this.#found.push(found)
    this.#searches++
    return true
  }
}

/** Whether an unreadable row may have caused an error. Temporary and final errors have other causes. */
function mayBeUnreadable(error: unknown): boolean {
  if (!(error instanceof SluiceError)) return error instanceof Error
  return error.code === 'store.io' && error.lasts === undefined
}
