import type { Clock } from '../../base/clock.ts'
import type { FlowNews } from '../../jobs/flow.ts'
import type { SettleResult } from '../../jobs/settlement.ts'
import { readAsync } from '../shared/reading.ts'
import type { SettleRequest } from '../shared/settle-once.ts'
import { tellEnds } from '../shared/workflows/tell.ts'
import type { Context } from './context.ts'
import { READ_GIVE_UP_MS, whenReachable } from './retry-connection.ts'
import { accessOf } from './shared-sql.ts'
import type { Notifier } from './watch.ts'

/** The most ends applied in one transaction. */
const AT_ONCE = 1000
const TAKE = `DELETE FROM sluice.flow_ends WHERE seq = ANY (ARRAY(
    SELECT seq FROM sluice.flow_ends ORDER BY seq LIMIT ${AT_ONCE} FOR UPDATE SKIP LOCKED)) RETURNING seq`

/** News of flows that have ended, by the `seq` of the job that ended them. */
export interface EndNews {
  readonly news: ReadonlyMap<number, FlowNews>
  /** The `seq` of each job whose end was applied. */
  readonly applied: ReadonlySet<number>
}

/**
 * Applies the ends of jobs to workflow flows, in transactions of its own, since such a transaction locks flows and other
 * jobs. What a process notes and does not apply, since it dies, is applied by the next one that applies any.
 */
export class FlowEnds {
  readonly #context: Context
  readonly #clock: Clock
  readonly #notifier: Notifier
  #running: Promise<EndNews> | null = null
  #next: Promise<EndNews> | null = null

  constructor(context: Context, clock: Clock, notifier: Notifier) {
    this.#context = context
    this.#clock = clock
    this.#notifier = notifier
  }

  get pending(): boolean {
    return this.#running !== null
  }

  /** Applies all ends that are noted by now. Calls made while others are applied share one run behind it. */
  apply(): Promise<EndNews> {
    if (!this.#running) return this.#start()
    this.#next ??= this.#running.then(
      () => this.#start(),
      () => this.#start(),
    )
    return this.#next
  }

  #start(): Promise<EndNews> {
    this.#next = null
    const run = this.#run().finally(() => {
      if (this.#running === run) this.#running = null
    })
    this.#running = run
    return run
  }

  async #run(): Promise<EndNews> {
    const news = new Map<number, FlowNews>()
    const applied = new Set<number>()
    for (;;) {
      const count = await whenReachable(this.#clock, () => this.#applySome(news, applied), READ_GIVE_UP_MS)
      if (count > 0) this.#notifier.notify('work')
      if (count < AT_ONCE) return { news, applied }
    }
  }

  #applySome(news: Map<number, FlowNews>, applied: Set<number>): Promise<number> {
    return this.#context.db.transaction(async (db) => {
      const seqs = (await db.all<[number]>(TAKE)).map(([seq]) => seq)
      if (seqs.length === 0) return 0
      for (const [seq, each] of (await readAsync(tellEnds(accessOf(this.#context, db), seqs))).byJob)
        news.set(seq, each)
      for (const seq of seqs) applied.add(seq)
      return seqs.length
    })
  }
}

/** Adds the news of flows to the results of the settlements that ended them. */
export function withNews(
  requests: readonly SettleRequest[],
  settled: readonly SettleResult[],
  { news }: EndNews,
): SettleResult[] {
  return settled.map((result, at) => {
    const flow = news.get((requests[at] as SettleRequest).settlement.seq)
    return flow && result.kind === 'settled' ? { ...result, flow } : result
  })
}
