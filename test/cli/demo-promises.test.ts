import { describe, expect, it } from 'vitest'
import type { DemoRecord, RecordedCall, RecordedJob } from '../../src/cli/demo/record.ts'
import { StrictWindow, worstWindow } from '../../src/cli/demo/strict-window.ts'
import { type DemoSummary, checkPromises } from '../../src/cli/demo/promises.ts'

const S = 1_000_000
const PERIOD = 5.25 * S
const T0 = 1_000 * S
const MAX = 4
const ROUNDS = 4

const budget = { max: MAX, perUs: 5 * S, guardUs: 0.25 * S }

interface Doctored {
  /** How late, in µs, each start of a round is. */
  readonly lateUs?: number
  readonly record?: Partial<DemoRecord>
  readonly calls?: (calls: RecordedCall[]) => RecordedCall[]
  readonly jobs?: (jobs: RecordedJob[]) => RecordedJob[]
}

/**
 * One tenant whose backlog starts MAX jobs in every period, the last of them urgent and late; then the doctored rows.
 */
function summaryOf({
  lateUs = 0,
  record = {},
  calls = (each) => each,
  jobs = (each) => each,
}: Doctored = {}): DemoSummary {
  const run: RecordedJob[] = Array.from({ length: MAX * ROUNDS }, (_, i) => ({
    id: `job-${i}`,
    tenant: 'a',
    urgent: false,
    createdUs: T0 - S,
    startedUs: T0 + Math.floor(i / MAX) * (PERIOD + lateUs) + (i % MAX) * 1000,
    completed: true,
  }))
  // It came after the first round, and went first in the second.
  run[MAX] = { ...(run[MAX] as RecordedJob), id: 'urgent', urgent: true, createdUs: T0 + 2 * S }
  const seen = run.map(({ id, startedUs }) => ({
    tenant: 'a',
    job: id,
    arrivedUs: (startedUs ?? 0) + 2000,
    beganUs: (startedUs ?? 0) + 1000,
    refused: false,
  }))
  const made: DemoRecord = {
    total: { ...budget, max: 2 * MAX },
    tenants: new Map([['a', budget]]),
    readyUs: T0 - 1,
    acknowledged: run.map((job) => job.id),
    jobs: jobs(run),
    calls: calls(seen),
    outages: [],
    ...record,
  }
  return checkPromises(made, new Map([['urgent', 12_000]]))
}

describe('the promises of the demo', () => {
  it('finds nothing in a run that kept every promise, and measures it', () => {
    const summary = summaryOf()
    expect(summary).toMatchObject({ jobs: 16, refused: 0, lost: 0, doubleRuns: 0, lowestUtilisation: 1, broken: [] })
    expect(summary.tenants).toMatchObject([{ name: 'a', worstWindow: MAX, calls: 16 }])
    expect(summary.urgent).toEqual({ jobs: 1, waitP50Ms: 3250, waitMaxMs: 3250, atTheEndMaxMs: 12_000, overtakenBy: 0 })
    expect(summary.lateness).toEqual({ starts: 12, p50Ms: 1, p99Ms: 1, maxMs: 1 })
  })

  it('finds a refused call, by the partner alone', () => {
    const { broken, refused, lowestUtilisation } = summaryOf({
      calls: ([first, ...rest]) => [{ ...first!, refused: true }, ...rest],
    })
    expect(refused).toBe(1)
    expect(lowestUtilisation).toBeNull()
    expect(broken).toContain('the partner refused 1 calls')
  })

  it('finds a window with one call too many, and only if it is shorter than the period', () => {
    const moved = (byUs: number): readonly string[] =>
      summaryOf({
        calls: (calls) =>
          calls.map((call, i) => (i === MAX ? { ...call, arrivedUs: calls[0]!.arrivedUs + byUs } : call)),
      }).broken
    expect(moved(5 * S - 1)).toEqual(['1 budgets were exceeded, a with 5 calls in a window of 4'])
    expect(moved(5 * S)).toEqual([])
  })

  it('finds a budget that was left unused while jobs waited', () => {
    // 1 % late is still within the promise, 3 % is not.
    expect(summaryOf({ lateUs: 0.01 * PERIOD }).broken).toEqual([])
    const { broken, lowestUtilisation } = summaryOf({ lateUs: 0.03 * PERIOD })
    expect(lowestUtilisation).toBeCloseTo(1 / 1.03, 3)
    expect(broken).toEqual(['1 budgets were left unused while jobs waited, a was used to 97.1 %'])
  })

  it('does not hold against a tenant what the total withheld', () => {
    const total = { ...budget, max: MAX }
    expect(summaryOf({ record: { total, tenants: new Map([['a', { ...budget, max: 2 * MAX }]]) } }).broken).toEqual([])
    // The same starts with room in the total: half of the tenant's budget is wasted.
    const wasted = summaryOf({ record: { tenants: new Map([['a', { ...budget, max: 2 * MAX }]]) } })
    expect(wasted.lowestUtilisation).toBeCloseTo(0.5, 1)
  })

  it('leaves out the time without a worker, but not what a worker fails to use', () => {
    const lateUs = 0.1 * PERIOD
    const outages = [1, 2, 3].map((round) => {
      const fromUs = T0 + (round - 1) * (PERIOD + lateUs) + PERIOD - 1000
      return { fromUs, untilUs: fromUs + lateUs + 1000, inFlight: [] }
    })
    expect(summaryOf({ lateUs }).broken).toHaveLength(1)
    expect(summaryOf({ lateUs, record: { outages } })).toMatchObject({ broken: [], kills: 3 })
  })

  it('counts a job as lost that was acknowledged and not completed, not stored, or never seen by the partner', () => {
    expect(summaryOf({ jobs: ([first, ...rest]) => [{ ...first!, completed: false }, ...rest] }).lost).toBe(1)
    expect(summaryOf({ jobs: ([, ...rest]) => rest }).lost).toBe(1)
    expect(summaryOf({ calls: ([, ...rest]) => rest }).broken).toContain('1 jobs were lost')
  })

  it('forgives a double run only to a job that was in flight at a kill, and once', () => {
    const again = (calls: RecordedCall[]): RecordedCall[] => [...calls, { ...calls[0]!, arrivedUs: T0 + 60 * S }]
    const outage = { fromUs: T0 + 30 * S, untilUs: T0 + 31 * S, inFlight: [] as RecordedJob[] }
    const inFlight: RecordedJob[] = [
      { id: 'job-0', tenant: 'a', urgent: false, createdUs: T0 - S, startedUs: T0, completed: false },
    ]
    expect(summaryOf({ calls: again }).broken).toEqual(['1 jobs ran twice though no kill interrupted them'])
    expect(summaryOf({ calls: again, record: { outages: [outage] } }).broken).toHaveLength(1)
    const record = { outages: [{ ...outage, inFlight }] }
    expect(summaryOf({ calls: again, record })).toMatchObject({ broken: [], doubleRuns: 1, doubleRunsInFlight: 1 })
    expect(summaryOf({ calls: (calls) => again(again(calls)), record }).broken).toHaveLength(1)
  })

  it('finds an ordinary job that started while an urgent one of its tenant waited', () => {
    const { urgent, broken } = summaryOf({
      jobs: (all) => all.map((job) => (job.id === 'urgent' ? { ...job, startedUs: job.startedUs! + 1500 } : job)),
    })
    expect(urgent.overtakenBy).toBe(1)
    expect(broken).toContain('1 ordinary jobs started before an urgent one of their tenant')
  })

  it('is not kept by a run in which nothing could be measured', () => {
    const nothing = { acknowledged: [], jobs: [], calls: [] }
    expect(summaryOf({ record: nothing }).broken).toEqual([
      'no backlog lasted over a whole window, so no use of a budget was measured',
      'no urgent job arrived while there was a backlog',
    ])
  })
})

describe("the partner's window", () => {
  it('refuses one more than its budget until the oldest call has left, to the µs', () => {
    const window = new StrictWindow(2, 100)
    for (const atUs of [0, 30]) {
      expect(window.refusedForUs(atUs)).toBe(0)
      window.take(atUs)
    }
    expect(window.refusedForUs(99)).toBe(1)
    expect(window.refusedForUs(100)).toBe(0)
    window.take(100)
    expect(window.refusedForUs(100)).toBe(30)
  })

  it('the worst window is half open', () => {
    expect(worstWindow([], 100)).toBe(0)
    expect(worstWindow([0, 100, 200], 100)).toBe(1)
    expect(worstWindow([0, 99, 100, 150, 198], 100)).toBe(4)
  })
})
