import * as fc from '../properties.ts'
import { expect, test } from 'vitest'
import { quotient, remainder } from '../../src/policy/rules/exact.ts'

test('quotient and remainder are those of whole numbers of any size', () => {
  const whole = fc.maxSafeInteger()
  const divisor = fc.integer({ min: 1, max: 1_000_000_000 })
  fc.assert(
    fc.property(fc.oneof(whole, fc.integer()), fc.oneof(fc.integer(), whole), fc.integer(), divisor, (a, b, c, d) => {
      const product = BigInt(a) * BigInt(b) + BigInt(c)
      const q = BigInt.asIntN(64, product) === product ? quotient(a, b, c, d) : null
      const rest = BigInt(remainder(a, b, c, d))
      expect(rest >= 0n && rest < BigInt(d)).toBe(true)
      expect((product - rest) % BigInt(d)).toBe(0n)
      if (q !== null && Number.isSafeInteger(q)) expect(BigInt(q) * BigInt(d) + rest).toBe(product)
    }),
    { numRuns: 2000 },
  )
})
