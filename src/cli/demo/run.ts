import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../base/clock.ts'
import { type Duration, durationMs, durationUs } from '../../base/duration.ts'
import { silentLogger } from '../../base/logger.ts'
import { Sluice } from '../../engine/engine.ts'
import type { Task } from '../../engine/define/task.ts'
import { createStore } from '../../store/open.ts'
import type { Store } from '../../store/contract/store.ts'
import { Board } from './board.ts'
import { type PartnerLogEntry, type PartnerServer, startPartner } from './partner-server.ts'
import { budgetOf, type PartnerCall, type PartnerLimits, partnerLimits, partnerTask } from './partner-task.ts'
import { type Budget, type DemoRecord, type Outage, readJobs } from './record.ts'
import { PER, PLAN_MAX, type Scenario, scenarioOf, type Tenant, TOTAL_MAX } from './scenario.ts'
import { groupDigits } from '../../policy/limits/policy-words.ts'
import type { ScreenSource } from './screen.ts'
import {
  budgetsOption,
  openSharedBudgets,
  removeSharedBudgets,
  type SharedBudgets,
  sharedBudgets,
  sharedText,
} from './shared-budgets.ts'
import { type DemoSummary, checkPromises, LEAST_AT_A_SERVER, LEAST_UTILISATION } from './promises.ts'
import { startWorker, type WorkerProcess } from './worker-process.ts'

/** Options of the demo. */
export interface DemoOptions {
  readonly fast: boolean
  /** Kills the worker midway and continues with a new one. */
  readonly kill: boolean
  /** The address of the server that keeps the budgets; null: the demo's store does. */
  readonly backend: string | null
  /** Extra window time for jitter on the way to the partner. If it is too short, the partner refuses calls. */
  readonly guard: Duration
  /** The least share of each budget that must be used while jobs wait for it, 0 to 1; null: the default. */
  readonly leastUtilisation: number | null
  /** Receives what happens, one line each. */
  readonly say: (line: string) => void
  /** Given what there is to see, as soon as there is. */
  readonly show: (source: ScreenSource) => void
  /** Ends the demo early, and cleans up. */
  readonly signal: AbortSignal
  /** Serves the dashboard of the demo's store at this port, 0: any; null: it does not. */
  readonly dashboardPort: number | null
  /** Called with the summary while the store is still there. */
  readonly onSummary: (summary: DemoSummary) => Promise<void>
}

const SLOTS = 50
const URGENT = 50

/**
 * Runs the demo and checks its promises.
 * @throws {SluiceError} `demo.broken` when a worker process ends by itself; `limiter.backend_down`,
 * `limiter.url.invalid` for the server of the budgets
 */
export async function runDemo(options: DemoOptions): Promise<DemoSummary> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-demo-'))
  try {
    const run = new DemoRun(options, `sqlite:${join(folder, 'demo.db')}`)
    try {
      const summary = await run.run()
      await options.onSummary(summary)
      return summary
    } finally {
      await run.close()
    }
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 })
  }
}

class DemoRun {
  readonly #options: DemoOptions
  readonly #url: string
  readonly #scenario: Scenario
  readonly #limits: PartnerLimits
  readonly #shared: SharedBudgets | null
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
    this.#shared = options.backend === null ? null : sharedBudgets(options.backend)
    this.#limits = partnerLimits(options.guard, this.#shared !== null)
    this.#board = new Board(this.#scenario.tenants, this.#limits, systemClock.monotonicUs())
  }

  async run(): Promise<DemoSummary> {
    const { say, show } = this.#options
    const { tenants } = this.#scenario
    await this.#openBudgets()
    const partner = await this.#startPartner()
    const sync = partnerTask(partner.url, this.#limits)
    const sluice = new Sluice({
      store: this.#url,
      tasks: [sync],
      limits: Object.values(this.#limits.plans),
      budgets: budgetsOption(this.#shared),
      logger: silentLogger,
    })
    this.#closing.push(() => sluice.stop())
    for (const tenant of tenants) await this.#enqueue(sync, tenant, tenant.jobs, 0)
    say(
      `${groupDigits(this.#board.jobs)} jobs of ${tenants.length} tenants are enqueued; the partner listens on ${partner.url}`,
    )
    const store = await this.#openStore()
    await this.#serveDashboard()
    const worker = await this.#startWorker(partner)
    const beganUs = worker.readyUs
    show(() => {
      const nowUs = systemClock.monotonicUs()
      return { view: this.#board.view(nowUs), elapsedMs: (nowUs - beganUs) / 1000, refused: this.#refused }
    })
    await this.#drain(worker, partner, store, this.#sendUrgent(sync))
    const usual = this.#shared === null ? LEAST_UTILISATION : LEAST_AT_A_SERVER
    const least = this.#options.leastUtilisation ?? usual
    return checkPromises(await this.#record(store, partner, beganUs), this.#atTheEndMs, least)
  }

  /** Ends all that still runs, the latest first. */
  async close(): Promise<void> {
    for (const close of this.#closing.toReversed()) await close()
  }

  async #openBudgets(): Promise<void> {
    const shared = this.#shared
    if (shared === null) return
    await openSharedBudgets(shared, this.#limits)
    this.#closing.push(() => removeSharedBudgets(shared))
    this.#options.say(`the budgets are kept at ${sharedText(shared)}`)
  }

  async #startPartner(): Promise<PartnerServer> {
    const partner = await startPartner({
      clock: systemClock,
      perUs: durationUs(PER, 'the window of the partner'),
      totalMax: TOTAL_MAX,
      tenantMax: new Map(this.#scenario.tenants.map(({ name, plan }) => [name, PLAN_MAX[plan]])),
      onCall: (entry) => this.#called(entry),
    })
    this.#closing.push(() => partner.close())
    return partner
  }

  async #openStore(): Promise<Store> {
    const retention = { completedUs: 0, cancelledUs: 0, discardedUs: 0 }
    const store = await createStore(this.#url, { clock: systemClock, durability: 'power', retention })
    await store.open()
    this.#closing.push(() => store.close())
    return store
  }

  async #serveDashboard(): Promise<void> {
    const { dashboardPort: port, say } = this.#options
    if (port === null) return
    const { serveDashboard } = await import('../dashboard/serve-dashboard.ts')
    const dashboard = await serveDashboard({ store: this.#url, port, host: '127.0.0.1', token: null })
    this.#closing.push(() => dashboard.stop())
    say(`the dashboard is at ${dashboard.url}/`)
  }

  async #startWorker(partner: PartnerServer): Promise<WorkerProcess> {
    const worker = await startWorker({
      store: this.#url,
      partnerUrl: partner.url,
      concurrency: SLOTS,
      guardMs: durationMs(this.#options.guard, 'guard'),
      shared: this.#shared,
    })
    this.#closing.push(() => worker.kill())
    return worker
  }

  #called({ tenant, job, arrivedUs, refused }: PartnerLogEntry): void {
    if (refused) this.#refused++
    else this.#board.called(tenant, job, arrivedUs)
    this.#onCall()
  }

  async #enqueue(
    sync: Task<PartnerCall, PartnerCall, undefined>,
    tenant: Tenant,
    count: number,
    priority: number,
  ): Promise<string[]> {
    const calls = Array.from({ length: count }, () => ({ tenant: tenant.name }))
    const jobs = await sync.enqueueMany(calls, { limits: [budgetOf(this.#limits, tenant.plan)], priority })
    const ids = jobs.map((job) => job.id)
    this.#acknowledged.push(...ids)
    this.#board.enqueued(tenant.name, count)
    return ids
  }

  /** Urgent jobs arrive while their tenants' backlogs wait. */
  async #sendUrgent(sync: Task<PartnerCall, PartnerCall, undefined>): Promise<void> {
    let passedMs = 0
    for (const atMs of this.#scenario.urgentAtMs) {
      await sleep(atMs - passedMs)
      passedMs = atMs
      const behind = this.#scenario.tenants.filter(({ name }) => this.#board.waiting(name) > 0)
      for (const tenant of behind) {
        const atTheEndMs = this.#board.waitAtTheEndMs(tenant.name, systemClock.monotonicUs())
        for (const id of await this.#enqueue(sync, tenant, 1, URGENT)) this.#atTheEndMs.set(id, atTheEndMs)
      }
      this.#options.say(`${behind.length} urgent jobs arrived, one for each tenant with a backlog`)
    }
  }

  async #drain(first: WorkerProcess, partner: PartnerServer, store: Store, urgent: Promise<void>): Promise<void> {
    const deadline = sleep(this.#scenario.deadlineMs)
    const failed = Promise.race([this.#aborted(), urgent.then(() => new Promise<never>(() => undefined))])
    failed.catch(() => undefined)
    let worker = first
    if (this.#options.kill) {
      const { killAfter } = this.#scenario
      // In the thick of it: a kill between two bursts would interrupt nothing.
      const midway = (): boolean => this.#board.done >= killAfter * this.#board.jobs && partner.open >= SLOTS / 2
      await Promise.race([this.#until(midway), worker.died, failed, deadline])
      worker = await this.#replace(worker, partner, store)
    }
    const drained = urgent.then(() => this.#until(() => this.#board.done >= this.#board.jobs))
    await Promise.race([drained, worker.died, failed, deadline])
    await worker.stop()
  }

  /** Kills the worker in the middle of its work, and starts another. */
  async #replace(worker: WorkerProcess, partner: PartnerServer, store: Store): Promise<WorkerProcess> {
    const fromUs = systemClock.monotonicUs()
    await worker.kill()
    const inFlight = await readJobs(store, 'active')
    this.#options.say(`the worker was killed (SIGKILL) with ${inFlight.length} jobs in flight`)
    const next = await this.#startWorker(partner)
    this.#outages.push({ fromUs, untilUs: next.readyUs, inFlight })
    this.#options.say(`a new worker took over after ${Math.round((next.readyUs - fromUs) / 1000)} ms`)
    return next
  }

  /** Resolves inside the call that meets the condition, so that the next step finds the worker busy. */
  #until(reached: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      this.#onCall = (): void => void (reached() && resolve())
      this.#onCall()
    })
  }

  #aborted(): Promise<never> {
    const { signal } = this.#options
    return new Promise((_resolve, reject) => {
      const abort = (): void => reject(signal.reason as Error)
      if (signal.aborted) abort()
      else signal.addEventListener('abort', abort, { once: true })
    })
  }

  async #record(store: Store, partner: PartnerServer, beganUs: number): Promise<DemoRecord> {
    // The store's clock is the host's monotonic clock plus an offset that is fixed per boot.
    const offsetUs = store.nowUs() - systemClock.monotonicUs()
    const perUs = durationUs(PER, 'the window of the partner')
    const guardUs = durationUs(this.#options.guard, 'guard')
    const budget = (max: number): Budget => ({ max, perUs, guardUs })
    return {
      total: budget(TOTAL_MAX),
      tenants: new Map(this.#scenario.tenants.map(({ name, plan }) => [name, budget(PLAN_MAX[plan])])),
      readyUs: beganUs + offsetUs,
      acknowledged: this.#acknowledged,
      jobs: await readJobs(store, 'all'),
      calls: partner.log.map((call) => ({
        ...call,
        arrivedUs: call.arrivedUs + offsetUs,
        beganUs: call.beganUs + offsetUs,
      })),
      outages: this.#outages.map((outage) => ({
        ...outage,
        fromUs: outage.fromUs + offsetUs,
        untilUs: outage.untilUs + offsetUs,
      })),
    }
  }
}

/** Waits without keeping the process alive. */
function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    systemClock.setTimer(resolve, ms).unref?.()
  })
}
