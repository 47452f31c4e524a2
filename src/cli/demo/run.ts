import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../base/clock.ts'
import { durationUs } from '../../base/duration.ts'
import { silentLogger } from '../../base/logger.ts'
import { Sluice } from '../../engine/engine.ts'
import { createStore } from '../../store/open.ts'
import type { Store } from '../../store/store.ts'
import { Board } from './board.ts'
import { type PartnerLogEntry, type PartnerServer, startPartner } from './partner-server.ts'
import { budgetOf, type PartnerCall, partnerTask, plans } from './partner-task.ts'
import { type Budget, type DemoRecord, type Outage, readJobs } from './record.ts'
import { GUARD, PER, PLAN_MAX, type Scenario, scenarioOf, type Tenant, TOTAL_MAX } from './scenario.ts'
import type { ScreenSource } from './screen.ts'
import { type DemoSummary, judge } from './verdict.ts'
import { startWorker, type WorkerProcess } from './worker-process.ts'
import type { Task } from '../../engine/task.ts'

/** How the demo is run. */
export interface DemoOptions {
  readonly fast: boolean
  /** Kill the worker midway, and go on with a new one. */
  readonly kill: boolean
  /** Told what happens, one line each. */
  readonly say: (line: string) => void
  /** Given what there is to see, as soon as there is. */
  readonly show: (source: ScreenSource) => void
  /** Ends the demo early; everything is cleaned up. */
  readonly signal: AbortSignal
}

const SLOTS = 50
const URGENT = 50

/**
 * Runs the demo and judges it.
 * @throws demo.broken when a worker process ends by itself
 */
export async function runDemo(options: DemoOptions): Promise<DemoSummary> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-demo-'))
  const run = new DemoRun(options, `sqlite:${join(folder, 'demo.db')}`)
  try {
    return await run.run()
  } finally {
    await run.close()
    await rm(folder, { recursive: true, force: true, maxRetries: 3 })
  }
}

class DemoRun {
  readonly #options: DemoOptions
  readonly #url: string
  readonly #scenario: Scenario
  readonly #board: Board
  readonly #acknowledged: string[] = []
  readonly #atTheEndMs = new Map<string, number>()
  readonly #outages: Outage[] = []
  readonly #closing: (() => Promise<void>)[] = []
  #refused = 0
  #onCall: () => void = () => undefined

  constructor(options: DemoOptions, url: string) {
    this.#options = options
    this.#url = url
    this.#scenario = scenarioOf(options)
    this.#board = new Board(this.#scenario.tenants, systemClock.monotonicUs())
  }

  async run(): Promise<DemoSummary> {
    const { say, show } = this.#options
    const { tenants } = this.#scenario
    const partner = await this.#startPartner()
    const partnerCall = partnerTask(partner.url)
    const sluice = new Sluice({
      store: this.#url,
      tasks: [partnerCall],
      limits: Object.values(plans),
      logger: silentLogger,
    })
    this.#closing.push(() => sluice.stop())
    for (const tenant of tenants) await this.#enqueue(partnerCall, tenant, tenant.jobs, 0)
    say(
      `${this.#board.jobs.toLocaleString('en-US')} jobs of ${tenants.length} tenants are enqueued; the partner listens on ${partner.url}`,
    )
    const store = createStore(this.#url, {
      clock: systemClock,
      durability: 'power',
      retention: { completedUs: 0, cancelledUs: 0, discardedUs: 0 },
    })
    await store.open()
    this.#closing.push(() => store.close())
    const worker = await startWorker(this.#url, partner.url, SLOTS)
    const beganUs = worker.readyUs
    show(() => {
      const nowUs = systemClock.monotonicUs()
      return { view: this.#board.view(nowUs), elapsedMs: (nowUs - beganUs) / 1000, refused: this.#refused }
    })
    this.#sendUrgent(partnerCall)
    const last = await this.#drain(worker, partner, store)
    await last.stop()
    return judge(await this.#record(store, partner, beganUs), this.#atTheEndMs)
  }

  /** Ends whatever still runs, the latest first. */
  async close(): Promise<void> {
    for (const close of this.#closing.toReversed()) await close()
  }
}
