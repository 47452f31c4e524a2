/**
 * Permits that are free, at least 0.
 *
 * @param concurrency the bound, 0 for a pause; null: unbounded, then Infinity.
 * @param active permits held; more than the bound after it was lowered.
 */
export function freePermits(concurrency: number | null, active: number): number {
  return concurrency === null ? Infinity : Math.max(0, concurrency - active)
}
