/**
 * The number of free permits, at least 0.
 *
 * @param concurrency the bound, 0 for a pause; null: unbounded, which gives Infinity.
 * @param active permits held; they may exceed a bound that was lowered.
 */
export function freePermits(concurrency: number | null, active: number): number {
  return concurrency === null ? Infinity : Math.max(0, concurrency - active)
}
