import { array, assert, constant, integer, oneof, pre, property, record, tuple, type Arbitrary } from 'fast-check'
import { describe, expect, test } from 'vitest'
import { charge, deniedUntil, newBucket } from '../../src/policy/bucket.ts'
import type { Bucket, Head, HeadSource, Lane } from '../../src/policy/lane.ts'
import type { LimitPolicy } from '../../src/policy/limit.ts'
import { normalisePolicy } from '../../src/policy/normalise-policy.ts'
import { decodeSieve, encodeSieve } from '../../src/policy/sieve.ts'
import { sift } from '../../src/policy/sift.ts'
import type { Policy } from '../../src/policy/policy.ts'

function bucketOf(policy: LimitPolicy): Bucket {
  return {
    id: 1,
    limit: 'r',
    key: '',
    policy,
    revision: 1,
    state: newBucket(policy, 0),
    active: 0,
    wakeAtUs: null,
    granted: 0,
    changed: false,
  }
}

function laneOf(bucket: Bucket, jobs: readonly Head[]): Lane {
  return {
    id: 1,
    queue: 1,
    buckets: [bucket],
    state: 'open',
    on: null,
    deputyOf: null,
    priority: 0,
    turn: 0,
    taken: 0,
    share: 1,
    head: 1,
    heads: jobs.slice(0, 1),
    next: 0,
    loaded: 1,
    ended: false,
    gone: new Set(),
    sieve: null,
    changed: false,
  }
}

class Jobs implements HeadSource {
  read = 0
  readonly list: Head[] = []

  add(weight: number, sinceUs: number): void {
    this.list.push({ seq: this.list.length + 1, priority: 0, given: 0, weights: [weight], attempt: 0, sinceUs })
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

/** What following job by job says: who is late, if each of the others starts as soon as it may. */
function followed(policy: LimitPolicy, jobs: readonly Head[], boundUs: number): number[] {
  const state = newBucket(policy, 0)
  charge(policy, state, 0, 1)
  const late: number[] = []
  let atUs = 0
  for (const { seq, weights, sinceUs } of jobs) {
    const weight = weights?.[0] ?? 1
    const startUs = deniedUntil(policy, state, 0, atUs, weight) ?? atUs
    if (seq > 1 && startUs > sinceUs + boundUs) late.push(seq)
    else {
      charge(policy, state, startUs, weight)
      atUs = startUs
    }
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
        const lane = laneOf(bucket, jobs.list)
        const untilUs = deniedUntil(policy, bucket.state, 0, 0, weights[0] ?? 1) ?? 0
        pre(untilUs > 0)
        const late: number[] = []
        for (let ended = false; !ended;) {
          const found = sift(lane, { bucket, untilUs, behaviour: 'wait' }, jobs, portion, 0)
          late.push(...found.late.map(({ head }) => head.seq))
          ended = found.ended
          if (lane.sieve) expect(decodeSieve(encodeSieve(lane.sieve))).toEqual(lane.sieve)
        }
        expect(late).toEqual(followed(policy, jobs.list, maxWait * 1000))
      }),
      { numRuns: 500 },
    )
  })

  test('looks at each job once: an arrival behind 10,000 is judged by itself', () => {
    const policy = normalisePolicy({ rate: 1000, per: '1s', burst: 1, maxWait: '10s' }, 'r')
    const bucket = bucketOf(policy)
    charge(policy, bucket.state, 0, 1)
    const jobs = new Jobs()
    for (let i = 0; i < 10_000; i++) jobs.add(1, 0)
    const lane = laneOf(bucket, jobs.list)
    const refusal = { bucket, untilUs: 1000, behaviour: 'wait' } as const
    while (!sift(lane, refusal, jobs, 1000, 0).ended);
    expect(jobs.read).toBe(10_000)
    expect(sift(lane, refusal, jobs, 1000, 0).late).toEqual([])
    jobs.add(1, 0)
    expect(sift(lane, refusal, jobs, 1000, 0).late.map(({ head }) => head.seq)).toEqual([10_001])
    expect(jobs.read).toBe(10_001)
  })
})
