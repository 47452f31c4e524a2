import { describe, expect, it } from 'vitest'
import type { Bucket, Lane } from '../../src/policy/admission/lane.ts'
import { WaitList, type WaitListSource } from '../../src/policy/admission/wait-list.ts'
import { bucketOf, laneOf, STRICT } from './lanes.ts'

const DEPUTIES = 1000
const anyQueue = (): boolean => true

/** A list whose first lanes each wait for a bucket of their own, as its deputies. It notes which deputies are read. */
class LongList implements WaitListSource {
  readonly common: Bucket = bucketOf(STRICT)
  readonly own: readonly Bucket[] = Array.from({ length: DEPUTIES }, () => bucketOf(STRICT))
  readonly read: number[] = []
  readonly #deputies = this.own.map((on) => Object.assign(laneOf(this.common, on), { on, deputyOf: this.common }))
  readonly list: WaitList = new WaitList(this.common, this, () => false)

  groups(): [] {
    return []
  }

  deputyBuckets(): number[] {
    return this.own.map(({ id }) => id)
  }

  deputies(_: Bucket, on: number): Lane[] {
    this.read.push(on)
    return this.#deputies.filter((lane) => lane.buckets[1]?.id === on)
  }

  served(): 'here' {
    return 'here'
  }

  /** A lane behind the deputy of this place. */
  behind(place: number, ...others: readonly Bucket[]): Lane {
    const lane = Object.assign(laneOf(this.common, this.bucket(place), ...others), { on: this.common, turn: 1 })
    this.list.join(lane)
    return lane
  }

  bucket(place: number): Bucket {
    return this.own[place] as Bucket
  }

  deputy(place: number): Lane {
    return this.#deputies[place] as Lane
  }
}

describe('a wait list with a thousand deputies', () => {
  it('reads only the deputies in the lists of buckets that its lanes need', () => {
    const long = new LongList()
    for (const place of [7, 7, 9]) long.behind(place)
    expect(long.list.first(anyQueue)).toBe(null)
    expect(long.list.first(anyQueue)).toBe(null)
    expect(long.read).toEqual([7, 9].map((place) => long.bucket(place).id))
  })

  it('gives a lane whose deputy has left', () => {
    const long = new LongList()
    const [shadowed, freed] = [long.behind(7), long.behind(9)]
    expect(long.list.first(anyQueue)).toBe(null)
    long.list.removeDeputy(long.deputy(9), long.bucket(9))
    expect(long.list.first(anyQueue)).toBe(freed)
    expect(long.list.holder(shadowed, anyQueue)).toBe(long.deputy(7))
  })

  it('takes none for a deputy that the decision moved to another list before it was read', () => {
    const long = new LongList()
    const other = bucketOf(STRICT)
    const lane = long.behind(7, other)
    Object.assign(long.deputy(7), { on: other, deputyOf: null })
    expect(long.list.first(anyQueue)).toBe(lane)
    expect(long.read).toEqual([long.bucket(7).id])
  })

  it('counts a lane that becomes its deputy in the decision, beside those that are stored', () => {
    const long = new LongList()
    const lane = long.behind(7)
    long.deputy(7).turn = 2
    expect(long.list.first(anyQueue)).toBe(lane)
    const newer = Object.assign(laneOf(long.common, long.bucket(7)), { on: long.bucket(7) })
    long.list.addDeputy(newer)
    expect(long.list.holder(lane, anyQueue)).toBe(newer)
  })
})
