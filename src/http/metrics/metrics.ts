import type { Clock } from '../../base/clock.ts'
import { Costly } from '../../base/costly.ts'
import { EventLoop } from '../../base/event-loop.ts'
import { jobGauges, usedGauges, waitingGauges, workerGauges } from '../../engine/api/gauges.ts'
import type { Sluice } from '../../engine/engine.ts'
import { type EngineInternals, internalsOf } from '../../engine/internals.ts'
import type { Remote } from '../../remote/remote.ts'
import type { EventLog } from '../event-log.ts'
import type { Monitor } from '../monitor/monitor.ts'
import { countsOf } from '../ojs/counts.ts'
import { expose, type Family, gauge } from './exposition.ts'
import { processFamilies } from './process-families.ts'
import { ojsFamilies, storeFamilies } from './store-families.ts'

/** The parts of a server that metrics read. */
export interface MetricsParts {
  readonly sluice: Sluice
  readonly remote: Remote
  readonly clock: Clock
  readonly monitor: Monitor
  readonly version: string
  readonly backend: string
}

/** Answers monitors such as Prometheus. */
export class Metrics {
  readonly #parts: MetricsParts
  readonly #engine: EngineInternals
  readonly #loop: EventLoop
  readonly #waiting: Costly<number>

  constructor(parts: MetricsParts) {
    const { sluice, clock } = parts
    this.#parts = parts
    this.#engine = internalsOf(sluice)
    this.#loop = new EventLoop(clock)
    this.#waiting = new Costly(clock, async () => (await sluice.limits.waiting({ rows: 1 })).waiting)
  }

  /** All metrics as text. @param isOpen in OpenMetrics */
  async text(events: Pick<EventLog, 'counts'>, isOpen: boolean): Promise<string> {
    return expose([...this.#ofProcess(), ...(await this.#ofStore(events))], isOpen)
  }

  /** Counts an error that ended a request. */
  failed(error: unknown): void {
    this.#engine.settings.trouble.count(error)
  }

  close(): void {
    this.#loop.close()
  }

  #ofProcess(): Family[] {
    const { backend, clock, version } = this.#parts
    const { figures, settings } = this.#engine
    const { claimedUs } = figures
    return [
      gauge(
        'sluice_build_info',
        'The version of Sluice and the kind of the store.',
        ['version', 'store'],
        [{ labels: [version, backend], value: 1 }],
      ),
      ...processFamilies({
        figures,
        errors: settings.trouble.errors,
        loop: this.#loop.delays(),
        backends: this.#engine.state().backends,
        claimAge: claimedUs === null ? null : Math.max(0, clock.monotonicUs() - claimedUs) / 1e6,
      }),
    ]
  }

  async #ofStore(events: Pick<EventLog, 'counts'>): Promise<Family[]> {
    const { monitor, remote } = this.#parts
    const { value: counts } = await monitor.counts.get()
    const { value: limits } = await monitor.limits.get()
    const { value: waiting } = await this.#waiting.get()
    const workers = await (await remote.store()).workers()
    return [
      ...storeFamilies({
        jobs: jobGauges(counts),
        workers: workerGauges(workers),
        waiting: waitingGauges(limits),
        used: usedGauges(limits),
      }),
      ...ojsFamilies({
        states: countsOf(counts),
        events: events.counts,
        workers: workers.filter(({ alive, name }) => alive && name !== null).length,
        waiting,
      }),
    ]
  }
}
