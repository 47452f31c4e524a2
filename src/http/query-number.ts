import { z } from 'zod'

const DIGITS = /^\d+$/

/** A whole number in a query: decimal digits alone, since `Number` takes `0x10`, `1e2` and `' 5 '` too. */
export function queryNumber(least: number, most: number = Number.MAX_SAFE_INTEGER): z.ZodType<number> {
  const number = z.number({ error: 'Expected a whole number, as decimal digits.' }).int().min(least).max(most)
  return z.preprocess((text) => (typeof text === 'string' && DIGITS.test(text) ? Number(text) : text), number)
}
