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
  if (Math.abs(product) + Math.abs(c) + divisor <= Number.MAX_SAFE_INTEGER) return wholePart(product + c, divisor)
  const sum = BigInt(a) * BigInt(b) + BigInt(c)
  const d = BigInt(divisor)
  return Number((sum - bigModulo(sum, d)) / d)
}

/** The remainder of `quotient`: 0 ≤ remainder < divisor. @param whole that quotient, where it is known already */
export function remainder(
  a: number,
  b: number,
  c: number,
  divisor: number,
  whole: number = quotient(a, b, c, divisor),
): number {
  const product = a * b
  // Adding 0 turns -0 into 0, which would otherwise be stored.
  if (Math.abs(product) + Math.abs(c) + divisor <= Number.MAX_SAFE_INTEGER) return product + c - whole * divisor + 0
  return Number(bigModulo(BigInt(a) * BigInt(b) + BigInt(c), BigInt(divisor)))
}

/**
 * `value / divisor` rounded down, exact where their sum fits in 53 bits. The rounded quotient is at most one off, which
 * its remainder shows. `%` of doubles takes four times as long.
 */
function wholePart(value: number, divisor: number): number {
  const guess = Math.floor(value / divisor)
  const rest = value - guess * divisor
  if (rest < 0) return guess - 1
  return rest >= divisor ? guess + 1 : guess
}

function bigModulo(value: bigint, divisor: bigint): bigint {
  const rest = value % divisor
  return rest < 0n ? rest + divisor : rest
}
