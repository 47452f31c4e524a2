import { expect } from 'vitest'

/**
 * Expects that a bucket never let more start than its burst and its refill. The instants are those that its backend
 * decided: how late a busy machine begins a start does not matter.
 * @param perMs units that come back each ms
 */
export function expectDecidedWithin(atUs: readonly number[], burst: number, perMs: number): void {
  const starts = atUs.toSorted((a, b) => a - b)
  for (const spanUs of [10_000, 100_000, 1_000_000, 3_000_000]) {
    let from = 0
    let most = 0
    for (let to = 0; to < starts.length; to++) {
      while ((starts[to] ?? 0) - (starts[from] ?? 0) >= spanUs) from++
      most = Math.max(most, to - from + 1)
    }
    expect(most, `starts within ${spanUs} µs`).toBeLessThanOrEqual(burst + Math.ceil((spanUs / 1000) * perMs) + 1)
  }
}
