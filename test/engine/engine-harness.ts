import { onTestFinished } from 'vitest'
import { internalsOf } from '../../src/engine/internals.ts'
import { Sluice, type SluiceEvents, type SluiceOptions } from '../../src/exports/index.ts'
import { createManualClock, type ManualClock } from '../../src/exports/testing.ts'

/** A manual clock and the engines on it, which end with the test. */
export interface EngineHarness {
  readonly clock: ManualClock
  /** Seconds since the harness was set. */
  readonly at: () => number
  readonly warnings: string[]
  readonly errors: string[]
  /** An engine on a store of its own, at work. */
  readonly start: (options: Partial<SluiceOptions> & Pick<SluiceOptions, 'tasks'>) => Promise<Sluice>
  /** The same, not at work. */
  readonly create: (options: Partial<SluiceOptions> & Pick<SluiceOptions, 'tasks'>) => Sluice
  /** Stops an engine; handlers that sleep on the clock are given time to be given up. */
  readonly stop: (engine: Sluice) => Promise<void>
}

/** Sets a harness for one test. */
export function createEngineHarness(): EngineHarness {
  const clock = createManualClock()
  const engines: Sluice[] = []
  const harness: EngineHarness = {
    clock,
    at: () => clock.monotonicUs() / 1e6,
    warnings: [],
    errors: [],
    async start(options) {
      const engine = harness.create(options)
      await engine.start()
      return engine
    },
    create(options) {
      const { warnings, errors } = harness
      const engine = new Sluice({
        store: 'sqlite::memory:',
        clock,
        logger: {
          debug: () => undefined,
          info: () => undefined,
          warn: (_, message) => void warnings.push(message),
          error: (_, message) => void errors.push(message),
        },
        ...options,
      })
      engines.push(engine)
      return engine
    },
    async stop(engine) {
      const end = { reached: false }
      const stopping = engine.stop({ within: 0 }).finally(() => (end.reached = true))
      await clock.advance(0)
      while (!end.reached) await clock.advance('500ms')
      await stopping
    },
  }
  onTestFinished(async () => {
    for (const engine of engines) await harness.stop(engine)
  })
  return harness
}

/** Every event of these names as it comes, oldest first. */
export function record<N extends keyof SluiceEvents>(
  engine: Sluice,
  ...names: readonly N[]
): { readonly name: N; readonly event: SluiceEvents[N] }[] {
  const events: { name: N; event: SluiceEvents[N] }[] = []
  for (const name of names) engine.on(name, (event) => void events.push({ name, event }))
  return events
}

/** The number of claims from now on. */
export async function countClaims(engine: Sluice): Promise<() => number> {
  const { store } = await internalsOf(engine).open()
  const claim = store.claim.bind(store)
  let claims = 0
  store.claim = (request) => {
    claims++
    return claim(request)
  }
  return () => claims
}
