import type { Clock } from '../../base/clock.ts'
import type { Sluice } from '../../engine/engine.ts'

/** A backend of budgets that this process cannot reach. */
export interface BackendDown {
  readonly backend: string
  readonly sinceMs: number
}

/** The backends of budgets that this process cannot reach now. */
export class BackendsDown {
  readonly #since = new Map<string, number>()
  readonly #off: readonly (() => void)[]

  constructor(sluice: Sluice, clock: Clock) {
    this.#off = [
      sluice.on('rate_limit.backend_down', ({ backend }) => this.#since.set(backend, clock.now())),
      sluice.on('rate_limit.backend_up', ({ backend }) => this.#since.delete(backend)),
    ]
  }

  get all(): readonly BackendDown[] {
    return [...this.#since].map(([backend, sinceMs]) => ({ backend, sinceMs }))
  }

  close(): void {
    for (const off of this.#off) off()
  }
}
