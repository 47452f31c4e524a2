import type { Clock } from '../../base/clock.ts'
import { fromJsonText } from '../../base/json-value.ts'
import type { Store } from '../../store/contract/store.ts'

/** A process that cannot reach a backend of budgets, as the store has it. */
export interface BackendReport {
  readonly backend: string
  /** The process: unlike any other. */
  readonly by: string
  /** Since when; that process's wall clock. */
  readonly sinceMs: number
  /** It counts until then; the store's clock. */
  readonly untilUs: number
}

/** A backend, as the process that reports knows it. */
interface Reported {
  readonly name: string
  readonly downSinceUs: number | null
  /** Asks whether it answers. */
  look(): Promise<void>
}

/** The parts of the reports. */
export interface BackendReportsOptions {
  readonly clock: Clock
  readonly store: Pick<Store, 'keepSetting' | 'settings' | 'nowUs'>
  readonly prefix: string
}

const SETTING = 'backend-down:'
/** A report counts for this time unless it is written again; a routine of each worker does so more often. */
const LEASE_US = 30_000_000

/** The processes that cannot reach a backend of budgets now. */
export async function backendReports(store: BackendReportsOptions['store']): Promise<BackendReport[]> {
  const nowUs = store.nowUs()
  return (await all(store)).filter(({ untilUs }) => untilUs > nowUs)
}

async function all(store: BackendReportsOptions['store']): Promise<BackendReport[]> {
  return (await store.settings(SETTING)).flatMap(
    ({ value }) => (fromJsonText(value, null) as BackendReport | null) ?? [],
  )
}

function nameOf({ backend, by }: Pick<BackendReport, 'backend' | 'by'>): string {
  return `${SETTING}${by}${backend}`
}

/** Tells the other processes of a store which backends this one cannot reach, and looks after what they tell. */
export class BackendReports {
  readonly #options: BackendReportsOptions
  readonly #links: () => Iterable<Reported>
  /** The reports of this process that the store has. */
  readonly #told = new Set<string>()
  #last: Promise<void> = Promise.resolve()

  constructor(options: BackendReportsOptions, links: () => Iterable<Reported>) {
    this.#options = options
    this.#links = links
  }

  /** Writes what has changed. If the store refuses, the next routine writes it. */
  changed(): Promise<void> {
    this.#last = this.#last.then(() => this.#write()).catch(() => undefined)
    return this.#last
  }

  /** Writes reports that go on, and asks each backend that others cannot reach whether this process can. */
  async routine(): Promise<void> {
    await this.changed()
    const { store, prefix } = this.#options
    const nowUs = store.nowUs()
    const found = (await all(store)).filter(({ by }) => by !== prefix)
    const away = new Set(found.filter(({ untilUs }) => untilUs > nowUs).map(({ backend }) => backend))
    for (const link of this.#links()) if (link.downSinceUs === null && away.has(link.name)) await link.look()
    // A process that was killed takes nothing back.
    for (const report of found) if (report.untilUs <= nowUs - LEASE_US) await store.keepSetting(nameOf(report), null)
  }

  /** Takes back all reports of this process. */
  async stop(): Promise<void> {
    await this.#last
    for (const name of this.#told) await this.#options.store.keepSetting(name, null).catch(() => undefined)
  }

  async #write(): Promise<void> {
    const { clock, store, prefix } = this.#options
    for (const { name: backend, downSinceUs } of this.#links()) {
      const name = nameOf({ backend, by: prefix })
      if (downSinceUs !== null) {
        const sinceMs = Math.round(clock.now() - (clock.monotonicUs() - downSinceUs) / 1000)
        const report: BackendReport = { backend, by: prefix, sinceMs, untilUs: store.nowUs() + LEASE_US }
        this.#told.add(name)
        await store.keepSetting(name, JSON.stringify(report))
      } else if (this.#told.has(name)) {
        await store.keepSetting(name, null)
        this.#told.delete(name)
      }
    }
  }
}
