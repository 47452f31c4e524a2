// The same measurements of durable workflows for every engine that has them.
import { type Flows, nowUs, type Side } from './engine.ts'
import { engineOf } from './engines.ts'
import { type Measure, quantiles, rate, type Terms, withEngine } from './measurements.ts'

const IN_FLIGHT = 100

/** Steps per second of workflows of so many steps, 100 of them in flight. */
export function steps(engine: string, each: number, terms: Terms = {}): Measure {
  return (round) =>
    withEngine(
      engine,
      round,
      terms,
      async (side) => {
        const flows = await flowsOf(engine, side)
        await rate(20, 20, () => flows.run(each))
        const count = Math.max(100, Math.round((2000 * round.scale) / each) * (engineOf(engine).flowPace ?? 1))
        return { 'steps/s': (await rate(count, IN_FLIGHT, () => flows.run(each))) * each }
      },
      true,
    )
}

/** Milliseconds from the start of a workflow to its first step, one workflow after the other. */
export function firstStep(engine: string, terms: Terms = {}): Measure {
  return (round) =>
    withEngine(
      engine,
      round,
      { concurrency: 10, ...terms },
      async (side) => {
        const flows = await flowsOf(engine, side)
        const waits: number[] = []
        for (let n = 0; n < 20 + Math.max(50, 400 * round.scale); n++) {
          const startUs = nowUs()
          waits.push(((await flows.run(1)) - startUs) / 1000)
        }
        return quantiles(waits.slice(20))
      },
      true,
    )
}

/** Milliseconds to enter a workflow again that remembers so many steps, and to end it. */
export function entering(engine: string, remembered: readonly number[], terms: Terms = {}): Measure {
  return (round) =>
    withEngine(
      engine,
      round,
      { concurrency: 10, ...terms },
      async (side) => {
        const flows = await flowsOf(engine, side)
        const found: Record<string, number> = {}
        for (const count of remembered) {
          const took: number[] = []
          for (let n = 0; n <= Math.max(2, 6 * round.scale); n++) took.push(await flows.enter(count))
          found[`${count} remembered, ms`] = quantiles(took.slice(1))['p50 ms'] as number
        }
        return found
      },
      true,
    )
}

async function flowsOf(engine: string, { flows, work }: Side): Promise<Flows> {
  if (!flows) throw new Error(`${engine} has no workflows`)
  await work(() => undefined)
  return flows
}
