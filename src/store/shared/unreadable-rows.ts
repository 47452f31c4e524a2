import { SluiceError } from '../../base/errors.ts'
import type { FlowNews } from '../../jobs/flow.ts'
import type { Why } from './rejection.ts'
import type { SetAside } from '../contract/set-aside.ts'
import type { Claim, Rejected } from '../contract/store.ts'

/** What a search for unreadable rows came to. */
export interface Found {
  readonly rejected: readonly Rejected[]
  readonly flows: readonly FlowNews[]
  readonly aside: readonly SetAside[]
  /** Rows that were put right, and of which nothing is to be told. */
  readonly mended: number
}

/** Why a job that cannot be read is given up. */
export const UNREADABLE: Why = { reason: 'unreadable', limit: '', key: '', expectedStartUs: null }

/** How long after a search that found nothing what fails is not searched for again: it reads every job that waits. */
const AGAIN_AFTER_MS = 30_000

/** Does as ever what a store is asked for; where it fails, what cannot be read is set aside and it is tried once more. */
export class UnreadableRows {
  readonly #nowMs: () => number
  readonly #find: () => Promise<Found>
  readonly #lost: () => readonly SetAside[]
  readonly #told = new Set<string>()
  /** What was found and is told with the next claim. */
  #found: Found[] = []
  #notBeforeMs = 0
  #searching: Promise<boolean> | null = null
  /** So many have found something. */
  #searches = 0

  /** @param lost the limits that could not be read when they were last looked at */
  constructor(nowMs: () => number, find: () => Promise<Found>, lost: () => readonly SetAside[]) {
    this.#nowMs = nowMs
    this.#find = find
    this.#lost = lost
  }

  /** A claim tells also of what was set aside since the last one. */
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

  /** @param work must be one that may be done again once it has failed: what it wrote was rolled back */
  async mend<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#searches
    try {
      return await work()
    } catch (error) {
      if (!mayBeUnreadable(error)) throw error
      // What failed beside others may find the search done.
      if (before === this.#searches && !(await this.#search())) throw error
      return work()
    }
  }

  /** True when anything was set aside or put right; those who ask at once share one search. */
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

/** Whether a store keeps its rows, and one of them may be at fault: what passes by itself, or is final, is not of that kind. */
function mayBeUnreadable(error: unknown): boolean {
  if (!(error instanceof SluiceError)) return error instanceof Error
  return error.code === 'store.io' && error.lasts === undefined
}
