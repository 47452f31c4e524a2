import type { NewSeriesRow } from '../../store/contract/series.ts'
import type { Store } from '../../store/contract/store.ts'
import type { SeriesTally } from '../events/series-tally.ts'

/** Rows that wait for a store in trouble; the oldest are given up. */
const WAITING_AT_MOST = 1000

/** Writes the counts of this process, never in the transaction of a claim. */
export class SeriesWriter {
  readonly #store: Store
  readonly #tally: SeriesTally
  readonly #worker: number
  #rows: readonly NewSeriesRow[] = []

  constructor(store: Store, tally: SeriesTally, worker: number) {
    this.#store = store
    this.#tally = tally
    this.#worker = worker
  }

  /** Writes the steps that have ended. A failed write is repeated with the next. @param all writes the step at work too */
  async flush(all = false): Promise<void> {
    const rows = [...this.#rows, ...this.#tally.take(all)].slice(-WAITING_AT_MOST)
    if (rows.length === 0) return
    this.#rows = rows
    await this.#store.writeSeries(this.#worker, rows)
    this.#rows = this.#rows.filter((row) => !rows.includes(row))
  }
}
