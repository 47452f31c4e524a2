import {
  array,
  assert,
  constant,
  constantFrom,
  integer,
  oneof,
  pre,
  property,
  record,
  tuple,
  type Arbitrary,
} from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { charge, deniedUntil, newBucket } from '../../src/policy/limits/bucket.ts'
import { keptBack } from '../../src/policy/limits/headroom.ts'
import type { Bucket, Head, HeadSource, Lane } from '../../src/policy/admission/lane.ts'
import type { LimitPolicy } from '../../src/policy/limits/limit.ts'
import { normalisePolicy } from '../../src/policy/limits/normalise.ts'
import { decodeScanCursor, encodeScanCursor } from '../../src/policy/admission/scan-cursor.ts'
import { scanLate } from '../../src/policy/admission/late-scan.ts'
import type { Policy } from '../../src/policy/limits/policy.ts'
import { bucketOf as bucketAtEpoch, laneOf } from './lanes.ts'

function bucketOf(policy: LimitPolicy): Bucket {
  return { ...bucketAtEpoch(policy), revision: 1, state: newBucket(policy, 0) }
}

/** An open lane of which the first job was read. */
function openLane(bucket: Bucket, jobs: readonly Head[]): Lane {
  return Object.assign(laneOf(bucket), { state: 'open' as const, heads: jobs.slice(0, 1), loaded: 1 })
}

class Jobs implements HeadSource {
  read = 0
  readonly list: Head[] = []

  add(weight: number, sinceUs: number, given = 0): void {
    this.list.push({
      seq: this.list.length + 1,
      priority: given,
      given,
      weights: [weight],
      attempt: 0,
      sinceUs,
      latestUs: null,
    })
  }

  heads(): Head[] {
    return []
  }

  behind(_: Lane, __: number, seq: number, count: number): Head[] {
    const found = this.list.filter((job) => job.seq > seq).slice(0, count)
    this.read += found.length
    return found
  }
}

/**
 * The late jobs, found job by job: each of the others starts as soon as it may. @param taken units that were taken at 0
 * @param leave false: late jobs start too.
 */
function followed(policy: LimitPolicy, jobs: readonly Head[], boundUs: number, taken = 1, leave = true): number[] {
  const state = newBucket(policy, 0)
  charge(policy, state, 0, taken)
  const late: number[] = []
  let atUs = 0
  for (const { seq, weights, sinceUs, given } of jobs) {
    const weight = weights?.[0] ?? 1
    const startUs = deniedUntil(policy, state, 0, atUs, weight, keptBack(policy, given)) ?? atUs
    const isLate = seq > 1 && startUs > sinceUs + boundUs
    if (isLate) late.push(seq)
    if (isLate && leave) continue
    charge(policy, state, startUs, weight)
    atUs = startUs
  }
  return late
}

/** Whom sifting takes out of a lane that is refused at 0, in portions. */
function sifted(bucket: Bucket, jobs: Jobs, untilUs: number, portion: number): number[] {
  const lane = openLane(bucket, jobs.list)
  const late: number[] = []
  for (let ended = false; !ended;) {
    const found = scanLate(lane, { bucket, untilUs, behaviour: 'wait' }, jobs, portion, 0)
    late.push(...found.late.map(({ head }) => head.seq))
    ended = found.ended
    if (lane.scanCursor) expect(decodeScanCursor(encodeScanCursor(lane.scanCursor))).toEqual(lane.scanCursor)
  }
  return late
}

const RULES: Arbitrary<{ policy: Policy; weights: Arbitrary<number[]> }> = oneof(
  record({ rate: integer({ min: 1, max: 7 }), per: integer({ min: 100, max: 3000 }) }).map((policy) => ({
    policy: { ...policy, burst: 1 },
    weights: array(integer({ min: 1, max: 1 }), { minLength: 1, maxLength: 60 }),
  })),
  record({ rate: integer({ min: 5, max: 9 }), per: integer({ min: 100, max: 3000 }) }).map((policy) => ({
    policy: { ...policy, burst: 5 },
    weights: array(integer({ min: 5, max: 5 }), { minLength: 1, maxLength: 60 }),
  })),
  record({ every: integer({ min: 50, max: 900 }) }).map((policy) => ({
    policy,
    weights: array(constant(1), { minLength: 1, maxLength: 60 }),
  })),
  record({
    window: constant('sliding' as const),
    max: integer({ min: 1, max: 6 }),
    per: integer({ min: 100, max: 3000 }),
  }).map((policy) => ({ policy, weights: array(constant(1), { minLength: 1, maxLength: 60 }) })),
)

/** A limit that keeps units back below priority 5, all of it used up at 0, and jobs that meet it in this order. */
const KEEPING = tuple(
  oneof(
    record({
      rate: integer({ min: 1, max: 7 }),
      per: integer({ min: 100, max: 3000 }),
      burst: integer({ min: 2, max: 6 }),
    }),
    record({
      window: constantFrom('sliding' as const, 'fixed' as const),
      max: integer({ min: 2, max: 6 }),
      per: integer({ min: 100, max: 3000 }),
    }),
  ),
  integer({ min: 1, max: 5 }),
  integer({ min: 0, max: 20 }),
  integer({ min: 0, max: 40 }),
  integer({ min: 0, max: 9000 }),
  integer({ min: 1, max: 20 }),
)

describe('sifting a lane', () => {
  test('takes out exactly the jobs that following each of them would find late, in portions of any size', () => {
    const cases = RULES.chain(({ policy, weights }) =>
      tuple(constant(policy), weights, integer({ min: 0, max: 9000 }), integer({ min: 1, max: 20 })),
    )
    assert(
      property(cases, ([given, weights, maxWait, portion]) => {
        const policy = normalisePolicy({ ...given, maxWait }, 'r')
        const bucket = bucketOf(policy)
        charge(policy, bucket.state, 0, 1)
        const jobs = new Jobs()
        for (const weight of weights) jobs.add(weight, 0)
        const untilUs = deniedUntil(policy, bucket.state, 0, 0, weights[0] ?? 1) ?? 0
        pre(untilUs > 0)
        expect(sifted(bucket, jobs, untilUs, portion)).toEqual(followed(policy, jobs.list, maxWait * 1000))
      }),
      { numRuns: 500 },
    )
  })

  test('below a headroom takes out no job that could start in time, and every job that certainly could not', () => {
    assert(
      property(KEEPING, ([given, units, urgent, others, maxWait, portion]) => {
        const most = 'max' in given ? given.max : given.burst
        pre(units < most && urgent + others > 0)
        const policy = normalisePolicy({ ...given, headroom: { units, priority: 5 }, maxWait }, 'r')
        const bucket = bucketOf(policy)
        charge(policy, bucket.state, 0, most)
        const jobs = new Jobs()
        for (let i = 0; i < urgent + others; i++) jobs.add(1, 0, i < urgent ? 5 : 0)
        const late = sifted(bucket, jobs, 1, portion)
        const truly = followed(policy, jobs.list, maxWait * 1000, most)
        // Under a window it is unknown how much of its reserve urgent jobs will have used when the others come.
        if ('rate' in given || urgent === 0) expect(late).toEqual(truly)
        const whoWouldBe = new Set(followed(policy, jobs.list, maxWait * 1000, most, false))
        expect(late.filter((seq) => !whoWouldBe.has(seq))).toEqual([])
      }),
      { numRuns: 1000 },
    )
  })

  test('looks at each job once: an arrival behind 10,000 is judged by itself', () => {
    const policy = normalisePolicy({ rate: 1000, per: '1s', burst: 1, maxWait: '10s' }, 'r')
    const bucket = bucketOf(policy)
    charge(policy, bucket.state, 0, 1)
    const jobs = new Jobs()
    for (let i = 0; i < 10_000; i++) jobs.add(1, 0)
    const lane = openLane(bucket, jobs.list)
    const refusal = { bucket, untilUs: 1000, behaviour: 'wait' } as const
    while (!scanLate(lane, refusal, jobs, 1000, 0).ended);
    expect(jobs.read).toBe(10_000)
    expect(scanLate(lane, refusal, jobs, 1000, 0).late).toEqual([])
    jobs.add(1, 0)
    expect(scanLate(lane, refusal, jobs, 1000, 0).late.map(({ head }) => head.seq)).toEqual([10_001])
    expect(jobs.read).toBe(10_001)
  })
})
