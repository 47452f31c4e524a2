import type { Clock } from '../../base/clock.ts'
import type { Sluice } from '../../engine/engine.ts'
import { backendReports } from '../../engine/run/backend-reports.ts'
import type { Remote } from '../../remote/remote.ts'

/** A backend of budgets that a process cannot reach. */
export interface BackendDown {
  readonly backend: string
  /** The first of these processes. */
  readonly sinceMs: number
  /** The process that answers cannot reach it. */
  readonly here: boolean
  /** The other processes of the store that cannot. */
  readonly others: number
}

/** The backends of budgets that this process cannot reach now, or any other of the same store. */
export class BackendsDown {
  readonly #remote: Remote
  readonly #since = new Map<string, number>()
  readonly #off: readonly (() => void)[]
  #names: ReadonlySet<string> = new Set()

  constructor(sluice: Sluice, remote: Remote, clock: Clock) {
    this.#remote = remote
    this.#off = [
      sluice.on('rate_limit.backend_down', ({ backend }) => this.#since.set(backend, clock.now())),
      sluice.on('rate_limit.backend_up', ({ backend }) => this.#since.delete(backend)),
    ]
  }

  /** Whether a backend was away at the last look. */
  has(backend: string): boolean {
    return this.#since.has(backend) || this.#names.has(backend)
  }

  /** Looks now. */
  async look(): Promise<readonly BackendDown[]> {
    const reports = Map.groupBy(await backendReports(await this.#remote.store()), ({ backend }) => backend)
    this.#names = new Set(reports.keys())
    return [...new Set([...this.#since.keys(), ...reports.keys()])].map((backend) => {
      const ownMs = this.#since.get(backend)
      const told = reports.get(backend) ?? []
      const here = ownMs !== undefined
      return {
        backend,
        sinceMs: Math.min(ownMs ?? Infinity, ...told.map(({ sinceMs }) => sinceMs)),
        here,
        // The report of this process is among them.
        others: Math.max(0, told.length - (here ? 1 : 0)),
      }
    })
  }

  close(): void {
    for (const off of this.#off) off()
  }
}
