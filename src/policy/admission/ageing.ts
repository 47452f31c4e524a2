/**
 * Ageing: a job gains one step of priority for each interval that it waits. All jobs gain at the same pace, so their
 * order never changes. A level fixed at arrival therefore suffices, and waiting writes no rows.
 */

import { LOWEST_PRIORITY } from '../../base/priority.ts'

/** The pace at which priorities age, and the steps that were counted before it was set. */
export interface Ageing {
  /** µs per step; null: no more steps. */
  readonly everyUs: number | null
  /** The store's clock when this pace was set. */
  readonly sinceUs: number
  /** Steps until then. */
  readonly steps: number
}

/** More than all steps of a store's life. */
const TIER = 2 ** 40

/** The ageing of a store without a pace. */
export const NO_AGEING: Ageing = { everyUs: null, sinceUs: 0, steps: 0 }

/** The steps counted until an instant of the store's clock. Before the pace was set, the count was constant. */
export function stepsAt({ everyUs, sinceUs, steps }: Ageing, atUs: number): number {
  return everyUs === null ? steps : steps + Math.max(0, Math.floor((atUs - sinceUs) / everyUs))
}

/** Sets another pace from now on. Waiting jobs keep the lead that they gained, so no stored level changes. */
export function changePace(ageing: Ageing, everyUs: number | null, nowUs: number): Ageing {
  return { everyUs, sinceUs: nowUs, steps: stepsAt(ageing, nowUs) }
}

/**
 * The level by which a job is ordered, higher first: its priority, less the steps counted at its arrival.
 *
 * @param reached the highest headroom threshold among its limits that its priority reaches; null: none. Ageing must not
 * lift a job past those that may use a reserve that it may not. They would wait behind it while the reserve is free.
 */
export function levelOf(priority: number, steps: number, reached: number | null): number {
  return priority - steps + (reached === null ? 0 : TIER * (reached - LOWEST_PRIORITY + 1))
}

/** The steps that a level was made with. */
export function stepsOf(level: number, priority: number): number {
  return (((priority - level) % TIER) + TIER) % TIER
}
