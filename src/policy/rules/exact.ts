/** The last instant that state may name, in µs since the epoch (the year 2255): far enough, and sums with it stay exact. */
export const LATEST_US = 9_000_000_000_000_000

/**
 * The whole part of `(a × b + c) / divisor`, rounded down, exact for any size. It uses plain numbers while the product
 * fits in 53 bits, since this runs several times per start; BigInt beyond.
 *
 * @param divisor integer ≥ 1; a, b and c are integers.
 */
export function quotient(a: number, b: number, c: number, divisor: number): number {
  const product = a * b
  if (Math.abs(product) + Math.abs(c) <= Number.MAX_SAFE_INTEGER) {
    const sum = product + c
    // Exact, unlike Math.floor(sum / divisor): the division is of a multiple.
    return (sum - modulo(sum, divisor)) / divisor
  }
  const sum = BigInt(a) * BigInt(b) + BigInt(c)
  const d = BigInt(divisor)
  return Number((sum - bigModulo(sum, d)) / d)
}

/** The remainder of `quotient`: 0 ≤ remainder < divisor. */
export function remainder(a: number, b: number, c: number, divisor: number): number {
  const product = a * b
  if (Math.abs(product) + Math.abs(c) <= Number.MAX_SAFE_INTEGER) return modulo(product + c, divisor)
  return Number(bigModulo(BigInt(a) * BigInt(b) + BigInt(c), BigInt(divisor)))
}

function modulo(value: number, divisor: number): number {
  const rest = value % divisor
  // Adding 0 turns -0 into 0, which would otherwise be stored.
  return rest < 0 ? rest + divisor : rest + 0
}

function bigModulo(value: bigint, divisor: bigint): bigint {
  const rest = value % divisor
  return rest < 0n ? rest + divisor : rest
}
