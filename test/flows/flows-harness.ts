import { onTestFinished } from 'vitest'
import { Sluice, type SluiceOptions } from '../../src/exports/index.ts'
import { createManualClock, type ManualClock } from '../../src/exports/testing.ts'
import { everyStore, type StoreKind } from '../stores.ts'

/** One start of a step, in seconds since the harness was made. */
export interface StepStart {
  readonly step: string
  readonly at: number
}

/** A manual clock and the engines of one store, which end with the test. */
export class FlowsHarness {
  readonly clock: ManualClock
  readonly starts: StepStart[] = []
  readonly warnings: string[] = []
  readonly url: string
  readonly #engines: Sluice[] = []

  constructor(store: StoreKind, options: { readonly enterAlways?: boolean } = {}) {
    this.clock = createManualClock(options)
    this.url = store.create()
    onTestFinished(async () => {
      for (const engine of this.#engines) await this.stop(engine)
    })
  }

  /** Seconds since the harness was made. */
  get at(): number {
    return this.clock.monotonicUs() / 1e6
  }

  /** An engine at work. */
  async start(options: Partial<SluiceOptions>): Promise<Sluice> {
    const engine = this.create(options)
    await engine.start()
    return engine
  }

  /** An engine that does not work. */
  create(options: Partial<SluiceOptions>): Sluice {
    const warn = (_: object, message: string): void => {
      // Tests look at retries and discards themselves.
      if (!/^a job was discarded|^a run failed, and its job is retried|^a step failed/.test(message))
        this.warnings.push(message)
    }
    const engine = new Sluice({
      store: this.url,
      tasks: [],
      clock: this.clock,
      logger: { debug: () => undefined, info: () => undefined, warn, error: warn },
      ...options,
    })
    this.#engines.push(engine)
    return engine
  }

  async stop(engine: Sluice): Promise<void> {
    const end = { reached: false }
    const stopping = engine.stop({ within: 0 }).finally(() => (end.reached = true))
    await this.clock.advance(0)
    while (!end.reached) await this.clock.advance('500ms')
    await stopping
  }

  /** Notes the start of a step. */
  note(step: string): void {
    this.starts.push({ step, at: this.at })
  }

  /** The starts of the steps with these names, in seconds. */
  of(...steps: readonly string[]): number[] {
    return this.starts.filter(({ step }) => steps.includes(step)).map(({ at }) => at)
  }
}

/** Every store that there is here. */
export const STORES: readonly StoreKind[] = await everyStore('flows')
