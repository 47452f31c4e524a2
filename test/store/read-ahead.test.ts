// How much of its wait lists a claim on PostgreSQL reads, by what the last claims needed.
import { describe, expect, test } from 'vitest'
import { createReadAhead } from '../../src/store/postgres/context.ts'
import { deeper, planFor, rememberReads } from '../../src/store/postgres/read-ahead.ts'
import { Depths, lineOf, type ReadPlan, type ReadSet } from '../../src/store/postgres/read-set.ts'

const [LIST, OTHER] = [7, 8]
/** Claims that read groups need lanes of this one, unless a test says more. */
const GROUP = '3,5'

/** The claims of one process, each of which reads the same two lists. */
class Claims {
  readonly #readAhead = createReadAhead()

  plan(): ReadPlan {
    return planFor(10, { readAhead: this.#readAhead, expectsUnlisted: false, parked: 0 })
  }

  /** One claim that needs the list so far, and reads again until it has that. @returns its last plan */
  claim(depth: number, way: { readonly inOrder: boolean }): ReadPlan {
    return this.claimOf([[GROUP, depth]], way)
  }

  /** The same with the depths of groups, and the number of lanes of the list that it reads. */
  claimOf(
    depths: readonly (readonly [group: string, depth: number])[],
    way: { readonly inOrder: boolean; readonly lanes?: number },
  ): ReadPlan {
    let plan = this.plan()
    let reads = 1
    const isInOrder = (): boolean => plan.lists.get(LIST)?.inOrder ?? way.inOrder
    const deepest = new Depths()
    for (const [name, depth] of depths) {
      const group = (): string | null => (isInOrder() ? null : name)
      for (; lineOf(plan, LIST, group()) < depth; reads++) plan = deeper(plan, LIST, group())
      deepest.reach(LIST, group(), depth)
    }
    const lineBuckets = Array.from({ length: way.lanes ?? 0 }, () => LIST)
    const read = { open: [], lined: [LIST, OTHER], inOrder: isInOrder() ? [LIST] : [], lineBuckets }
    const used = { deepest, mostHeads: 0, mostOpenHeads: 0, lanes: new Map() }
    rememberReads(this.#readAhead, read as unknown as ReadSet, plan, used, { starts: 1, more: false, missed: false })
    this.reads = reads
    return plan
  }

  reads = 0
}

describe('the lanes of a wait list that a claim reads', () => {
  test.each([true, false])('are few at first, and as many as the last claims needed (in one order: %s)', (inOrder) => {
    const claims = new Claims()
    claims.claim(100, { inOrder })
    expect(claims.reads).toBe(3)
    const reads = [0, 1, 2, 3, 100].map((depth) => {
      claims.claim(depth, { inOrder })
      return claims.reads
    })
    expect(reads).toEqual([1, 1, 1, 1, 1])
  })

  test('are no more of other lists', () => {
    const claims = new Claims()
    claims.claim(100, { inOrder: true })
    expect([lineOf(claims.plan(), OTHER, null), lineOf(claims.plan(), OTHER, GROUP)]).toEqual([16, 4])
  })

  test('are as many of all groups of a short list', () => {
    const claims = new Claims()
    claims.claimOf([[GROUP, 30]], { inOrder: false, lanes: 256 })
    expect([GROUP, '3', ''].map((group) => lineOf(claims.plan(), LIST, group))).toEqual([64, 64, 64])
  })

  test('are no more of the other groups of a long list, from then on', () => {
    const claims = new Claims()
    claims.claimOf([[GROUP, 30]], { inOrder: false, lanes: 257 })
    for (const lanes of [100, 0]) {
      expect(lineOf(claims.plan(), LIST, GROUP)).toBeGreaterThanOrEqual(60)
      expect(['3', ''].map((group) => lineOf(claims.plan(), LIST, group))).toEqual([4, 4])
      claims.claimOf([[GROUP, 30]], { inOrder: false, lanes })
      expect(claims.reads).toBe(1)
    }
    const plan = claims.claimOf([['3', 9]], { inOrder: false })
    expect([claims.reads, lineOf(plan, LIST, '3'), lineOf(plan, LIST, '')]).toEqual([2, 64, 16])
    expect([lineOf(claims.plan(), LIST, '3'), lineOf(claims.plan(), LIST, '')]).toEqual([64, 4])
  })

  test('are as many of all groups of a long list if many need more than the first number', () => {
    const claims = new Claims()
    const groups = Array.from({ length: 65 }, (_, i) => [`${i}`, 30] as const)
    claims.claimOf(groups, { inOrder: false, lanes: 2000 })
    expect(claims.plan().lists.get(LIST)?.groups.size).toBe(0)
    expect(lineOf(claims.plan(), LIST, 'another')).toBeGreaterThanOrEqual(30)
    claims.claimOf(groups, { inOrder: false, lanes: 2000 })
    expect(claims.reads).toBe(1)
  })

  test('become fewer with each claim that needs fewer, down to the first number', () => {
    const claims = new Claims()
    claims.claim(200, { inOrder: false })
    const lines = Array.from({ length: 100 }, () => lineOf(claims.claim(0, { inOrder: false }), LIST, GROUP))
    expect(lines).toEqual(lines.toSorted((a, b) => b - a))
    expect([lines[0]! >= 200, lines.at(-1)]).toEqual([true, 4])
  })

  test('are those of its groups if it would be read too far in one order, and then of one order again', () => {
    const claims = new Claims()
    const plan = claims.claim(5000, { inOrder: true })
    expect(plan.lists.get(LIST)?.inOrder).toBe(false)
    const ways = Array.from({ length: 65 }, () => claims.claim(1, { inOrder: true }).lists.get(LIST)?.inOrder ?? null)
    expect(ways).toEqual([...Array<boolean>(63).fill(false), null, true])
  })
})

test('the way of a list is told to the server for 64 claims, and then left to it', () => {
  const claims = new Claims()
  claims.claim(1, { inOrder: true })
  const told = Array.from({ length: 66 }, () => {
    const way = claims.plan().lists.get(LIST)?.inOrder ?? null
    claims.claim(1, { inOrder: true })
    return way
  })
  expect(told.filter((way) => way === null)).toHaveLength(1)
  expect(told.indexOf(null)).toBe(64)
})
