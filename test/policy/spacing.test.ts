import { expect, test } from 'vitest'
import { adopt, charge, deniedUntil, newBucket, refund } from '../../src/policy/limits/bucket.ts'
import { EPOCH_US, policyOf, SECOND } from './histories.ts'

const policy = policyOf({ kind: 'spacing', everyUs: 2 * SECOND })

test('a start counts once, whatever its weight, and a late one moves the next', () => {
  const state = newBucket(policy, EPOCH_US)
  charge(policy, state, EPOCH_US, 50)
  expect(deniedUntil(policy, state, 0, EPOCH_US, 9)).toBe(EPOCH_US + 2 * SECOND)
  charge(policy, state, EPOCH_US + 3 * SECOND, 1)
  expect(deniedUntil(policy, state, 0, EPOCH_US + 3 * SECOND, 1)).toBe(EPOCH_US + 5 * SECOND)
})

test('a start that was taken unasked costs an interval too', () => {
  const state = newBucket(policy, EPOCH_US)
  charge(policy, state, EPOCH_US, 1)
  charge(policy, state, EPOCH_US + SECOND, 1)
  expect(deniedUntil(policy, state, 0, EPOCH_US + SECOND, 1)).toBe(EPOCH_US + 4 * SECOND)
})

test('the last start handed back frees its place, an earlier one does not', () => {
  const state = newBucket(policy, EPOCH_US)
  charge(policy, state, EPOCH_US, 1)
  charge(policy, state, EPOCH_US + 2 * SECOND, 1)
  refund(policy, state, EPOCH_US + 3 * SECOND, 1, EPOCH_US)
  expect(deniedUntil(policy, state, 0, EPOCH_US + 3 * SECOND, 1)).toBe(EPOCH_US + 4 * SECOND)
  refund(policy, state, EPOCH_US + 3 * SECOND, 1, EPOCH_US + 2 * SECOND)
  expect(deniedUntil(policy, state, 0, EPOCH_US + 3 * SECOND, 1)).toBeNull()
})

test('another interval counts from the last start', () => {
  const state = newBucket(policy, EPOCH_US)
  charge(policy, state, EPOCH_US, 1)
  const slower = policyOf({ kind: 'spacing', everyUs: 10 * SECOND })
  expect(deniedUntil(slower, adopt(policy, slower, state, EPOCH_US + SECOND), 0, EPOCH_US + SECOND, 1)).toBe(
    EPOCH_US + 10 * SECOND,
  )
  // An unused spacing has no last start: it stays open.
  const fresh = adopt(policy, slower, newBucket(policy, EPOCH_US), EPOCH_US)
  expect(deniedUntil(slower, fresh, 0, EPOCH_US, 1)).toBeNull()
})
