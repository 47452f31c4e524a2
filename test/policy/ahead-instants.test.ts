import { describe, expect, it } from 'vitest'
import { Ahead, earlier, HEADS_AHEAD } from '../../src/policy/admission/ahead.ts'
import { type Bucket, type Head, headOf, type Lane } from '../../src/policy/admission/lane.ts'
import { type Charge, QueueSlots } from '../../src/policy/admission/queue-slots.ts'
import { WaitList } from '../../src/policy/admission/wait-list.ts'
import { debit } from '../../src/policy/limits/bucket.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import { EPOCH_US, policyOf, rate, SECOND } from './histories.ts'
import { bucketOf, headWith, laneOf, STRICT } from './lanes.ts'

const HORIZON_US = 20_000

function shareOf(ahead = 4, buckets: readonly Charge[] = []): QueueSlots {
  return new QueueSlots(1, 2, 10, buckets, true, () => [], ahead)
}

const listOf = (bucket = bucketOf(STRICT)): WaitList =>
  new WaitList(
    bucket,
    { groups: () => [], deputyBuckets: () => [], deputies: () => [], served: () => 'here' },
    () => false,
  )
const at = (ms: number): number => EPOCH_US + ms * 1000
const ahead = (horizonUs = HORIZON_US): Ahead => new Ahead(EPOCH_US, EPOCH_US + horizonUs)

describe('the instants that a decision looks ahead to', () => {
  it('are those up to the horizon, the first one first', () => {
    const decided = ahead()
    const [late, soon, last] = [listOf(), listOf(), listOf()]
    decided.note(late, at(15))
    decided.note(soon, at(10))
    decided.note(last, at(20))
    decided.note(listOf(), at(20) + 1)
    const found = [decided.next(), decided.next(), decided.next(), decided.next()]
    expect(found.map((each) => each && [each.atUs, each.waitLists])).toEqual([
      [at(10), [soon]],
      [at(15), [late]],
      [at(20), [last]],
      null,
    ])
  })

  it('name all wait lists of one instant together', () => {
    const decided = ahead()
    const [one, two, three] = [listOf(), listOf(), listOf()]
    for (const each of [one, two]) decided.note(each, at(10))
    decided.note(three, at(11))
    expect(decided.next()).toEqual({ atUs: at(10), waitLists: [one, two] })
    expect(decided.next()).toEqual({ atUs: at(11), waitLists: [three] })
  })

  it('never go back: what could start before is decided for the present instant', () => {
    const decided = ahead()
    decided.note(listOf(), at(10))
    decided.next()
    const list = listOf()
    decided.note(list, at(5))
    expect(decided.next()).toEqual({ atUs: at(10), waitLists: [list] })
  })

  it('leave out a wait list that was left to its own time', () => {
    const decided = ahead()
    const list = listOf()
    decided.leave(list)
    decided.note(list, at(10))
    expect(decided.next()).toBe(null)
    decided.note(listOf(), at(10))
    decided.next()
    expect(decided.defers(list, at(10))).toBe(true)
  })

  it('of a wait list that needs a later one are noted', () => {
    const decided = ahead()
    const list = listOf()
    expect(decided.defers(list, at(10))).toBe(true)
    expect(decided.next()).toEqual({ atUs: at(10), waitLists: [list] })
    expect(decided.defers(list, at(10))).toBe(false)
    expect(decided.defers(list, at(10) + 1)).toBe(true)
    expect(decided.next()?.atUs).toBe(at(10) + 1)
  })

  it('are not for what the decision for the clock has refused', () => {
    const decided = ahead()
    const list = listOf()
    expect(decided.defers(list, EPOCH_US)).toBe(true)
    expect(decided.defers(list, at(10))).toBe(true)
    expect(decided.next()).toBe(null)
  })
})

describe('a start ahead', () => {
  interface Given {
    readonly lane?: readonly Bucket[]
    readonly own?: readonly Charge[]
    readonly head?: Partial<Head>
    readonly room?: number
    readonly atMs?: number
  }
  const admits = ({ lane = [bucketOf(STRICT, 1)], own = [], head = {}, room = 4, atMs = 10 }: Given = {}): boolean =>
    ahead().admits(laneOf(...lane), headWith(head), shareOf(room, own), at(atMs))

  it('is admitted at the instant that its own limit sets, while there is room', () => {
    expect(admits()).toBe(true)
    expect(admits({ room: 1 })).toBe(true)
    expect(admits({ room: 0 })).toBe(false)
  })

  it('may expire at its instant, and not before', () => {
    expect(admits({ head: { latestUs: at(10) } })).toBe(true)
    expect(admits({ head: { latestUs: at(10) - 1 } })).toBe(false)
  })

  it('is left where a limit is not defined, drops, reschedules or bounds the wait', () => {
    const refuses = (more: Partial<LimitPolicy>): boolean =>
      admits({ lane: [bucketOf(policyOf(rate(100, SECOND, 1), more), 1)] })
    expect(refuses({})).toBe(true)
    expect(refuses({ onLimit: 'drop' })).toBe(false)
    expect(refuses({ onLimit: 'reschedule' })).toBe(false)
    expect(refuses({ maxWaitUs: SECOND })).toBe(false)
    expect(admits({ lane: [bucketOf(null)] })).toBe(false)
    expect(admits({ lane: [bucketOf(STRICT, 1), bucketOf(null)] })).toBe(false)
  })

  it('needs the queue’s own limits at that instant', () => {
    const own = (bucket: Bucket): boolean => admits({ own: [{ bucket, weight: 1 }] })
    const twice = policyOf(rate(50, SECOND, 1))
    expect(own(bucketOf(policyOf(rate(50, SECOND, 2)), 1))).toBe(true)
    expect(own(bucketOf(STRICT, 1))).toBe(true)
    expect(own(bucketOf(twice, 1))).toBe(false)
    expect(own(bucketOf(policyOf(rate(50, SECOND, 2)), 3))).toBe(false)
    expect(own(bucketOf(null))).toBe(false)
  })

  it('is left under a penalty that has not ended by the clock', () => {
    const closed = (untilUs: number): boolean => {
      const bucket = bucketOf(policyOf(rate(100, SECOND, 2)))
      bucket.state.closedUntilUs = untilUs
      return admits({ lane: [bucketOf(STRICT, 1), bucket] })
    }
    expect(closed(EPOCH_US + 1)).toBe(false)
    expect(closed(EPOCH_US)).toBe(true)
  })

  it('is left where a report of the API ends before it', () => {
    const burst = policyOf(rate(100, SECOND, 5))
    const reported = (untilUs: number): boolean => {
      const bucket = bucketOf(burst)
      bucket.state.allowance = { units: 3, untilUs, sinceUs: EPOCH_US - SECOND }
      return admits({ lane: [bucket] })
    }
    expect(reported(at(10) + 1)).toBe(true)
    expect(reported(at(10))).toBe(false)
    expect(reported(EPOCH_US + 1)).toBe(false)
    expect(reported(EPOCH_US)).toBe(true)
  })

  it('is left in a sliding window in debt, and with more units than the window holds', () => {
    const sliding = policyOf({ kind: 'sliding', max: 3, periodUs: 10_000 })
    const owing = bucketOf(sliding)
    debit(sliding, owing.state, EPOCH_US, 5)
    expect(admits({ lane: [bucketOf(sliding, 3)] })).toBe(true)
    expect(admits({ lane: [owing] })).toBe(false)
    expect(admits({ lane: [bucketOf(sliding)], head: { weights: [3] } })).toBe(true)
    expect(admits({ lane: [bucketOf(sliding)], head: { weights: [4] } })).toBe(false)
    expect(admits({ lane: [bucketOf(policyOf(rate(300, SECOND, 3)))], head: { weights: [4] } })).toBe(true)
  })

  it('is in the running fixed window or the one after it', () => {
    const fixed = policyOf({ kind: 'fixed', max: 3, window: { align: 'epoch', periodUs: 8000 }, guardUs: 0 })
    expect(EPOCH_US % 8000).toBe(0)
    expect(admits({ lane: [bucketOf(fixed)], atMs: 15.999 })).toBe(true)
    expect(admits({ lane: [bucketOf(fixed)], atMs: 16 })).toBe(false)
  })

  it('takes no permit before its time, unless the permit’s own limit sets the instant', () => {
    const both = policyOf(rate(100, SECOND, 1), { concurrency: 5 })
    const permits = policyOf(null, { concurrency: 5 })
    expect(admits({ lane: [bucketOf(both, 1)] })).toBe(true)
    expect(admits({ lane: [bucketOf(STRICT, 1), bucketOf(both)] })).toBe(false)
    expect(admits({ lane: [bucketOf(STRICT, 1), bucketOf(permits)] })).toBe(false)
    expect(admits({ lane: [bucketOf(both)], atMs: 2 })).toBe(false)
    expect(admits({ lane: [bucketOf(policyOf(rate(100, SECOND, 2), { concurrency: 5 }), 2)] })).toBe(true)
  })

  it('holds back the next start of a strict limit that more lanes need for at most 5 ms, unless it weighs nothing there', () => {
    const own = (lanes = 1): Bucket => bucketOf(policyOf(rate(50, SECOND, 1)), 1, lanes)
    const others = (more: Given): boolean => admits({ lane: [own(), bucketOf(STRICT, 0, 2)], ...more })
    expect(others({ atMs: 20 })).toBe(false)
    expect(others({ atMs: 5.001 })).toBe(false)
    expect(others({ atMs: 5 })).toBe(true)
    expect(others({ atMs: 20, head: { weights: [1, 0] } })).toBe(true)
    expect(admits({ lane: [bucketOf(STRICT, 1), bucketOf(policyOf(rate(100, SECOND, 2)), 0, 2)] })).toBe(true)
    // It is free from 10 ms on, and then held back until the instant.
    const soon = bucketOf(STRICT, 1, 2)
    expect(admits({ lane: [bucketOf(policyOf({ kind: 'spacing', everyUs: 15_000 }), 1), soon], atMs: 15 })).toBe(true)
    expect(admits({ lane: [bucketOf(policyOf({ kind: 'spacing', everyUs: 15_001 }), 1), soon], atMs: 15.001 })).toBe(
      false,
    )
  })

  it('holds back the next start of a strict limit for longer if no more lanes need it than the limit that sets the instant', () => {
    const around = (lanes: number): Bucket => bucketOf(policyOf(rate(50, SECOND, 1)), 1, lanes)
    const key = (lanes: number): Bucket => bucketOf(STRICT, 0, lanes)
    expect(admits({ lane: [around(2), key(2)], atMs: 20 })).toBe(true)
    expect(admits({ lane: [around(2), key(3)], atMs: 20 })).toBe(false)
    // All lanes of a queue need the queue's own limits.
    const own = { bucket: bucketOf(STRICT, 0, 0), weight: 1 }
    expect(admits({ lane: [around(3)], own: [own], atMs: 20 })).toBe(false)
    expect(admits({ lane: [key(3)], own: [{ bucket: around(0), weight: 1 }], atMs: 20 })).toBe(true)
  })

  it('is one of so many jobs that one read takes', () => {
    const asked: number[] = []
    const heads = (_: Lane, count: number): Head[] => {
      asked.push(count)
      return Array.from({ length: count }, (__, i) => headWith({ seq: i + 1 }))
    }
    const lane = laneOf(bucketOf(STRICT, 1))
    for (; lane.next < 16; lane.next++) headOf(lane, { heads, behind: () => [] }, 100, EPOCH_US, HEADS_AHEAD)
    expect(asked).toEqual([17])
  })
})

describe('the time to come for starts ahead', () => {
  interface Given {
    readonly lane?: readonly Bucket[]
    readonly head?: Partial<Head> | null
    readonly share?: QueueSlots | undefined
    readonly needMs?: number
    readonly horizonMs?: number
  }
  const slow = (): Bucket => bucketOf(policyOf(rate(10, SECOND, 1)), 1)
  const comeMs = (given: Given = {}): number => {
    const { lane = [slow()], head = {}, needMs = 100, horizonMs = 20 } = given
    const share = 'share' in given ? given.share : shareOf()
    const needUs = at(needMs)
    return (ahead(horizonMs * 1000).wakeUs(laneOf(...lane), head && headWith(head), share, needUs) - EPOCH_US) / 1000
  }

  it('is half a horizon before the first, and its instant if that is near', () => {
    expect(comeMs()).toBe(90)
    expect(comeMs({ needMs: 20.001 })).toBe(10.001)
    expect(comeMs({ needMs: 20 })).toBe(20)
    expect(earlier(at(100), EPOCH_US, 0)).toBe(at(100))
    expect(earlier(at(100), EPOCH_US, 5)).toBe(at(100) - 2)
  })

  it('is the instant itself without a job, without a queue here, and without room from the start', () => {
    expect(comeMs({ head: null })).toBe(100)
    expect(comeMs({ share: undefined })).toBe(100)
    expect(comeMs({ share: shareOf(0) })).toBe(100)
  })

  it('is early also when the room is used up: another claim finds some', () => {
    const share = shareOf(1)
    share.ahead = 0
    expect(comeMs({ share })).toBe(90)
  })

  it('is the instant itself where more than time decides', () => {
    const dropping = bucketOf(policyOf(rate(10, SECOND, 5), { onLimit: 'drop' }))
    expect(comeMs({ lane: [slow(), dropping] })).toBe(100)
    expect(comeMs({ lane: [slow(), bucketOf(null)] })).toBe(100)
  })

  it('is at most 2.5 ms before a start that holds back the next one of a strict limit that more lanes need', () => {
    const shared = (taken = 0): Bucket => bucketOf(STRICT, taken, 2)
    expect(comeMs({ lane: [slow(), shared()] })).toBe(97.5)
    expect(comeMs({ lane: [slow(), shared()], horizonMs: 4 })).toBe(98)
    expect(comeMs({ lane: [slow(), shared()], head: { weights: [1, 0] } })).toBe(90)
    expect(comeMs({ lane: [slow(), bucketOf(policyOf(rate(100, SECOND, 2)), 0, 2)] })).toBe(90)
    expect(comeMs({ lane: [slow(), slow()] })).toBe(90)
    expect(comeMs({ lane: [slow(), shared(1)] })).toBe(97.5)
    expect(comeMs({ lane: [slow(), bucketOf(STRICT)] })).toBe(90)
  })
})
