import { describe, expect, test } from 'vitest'
import { input, limit, type Policy, type RateLimitRejected, Sluice, task } from '../../src/exports/index.ts'
import { createManualClock, type ManualClock } from '../../src/exports/testing.ts'
import { sized } from '../sized.ts'

const JOBS = sized(20_000, 100_000)

interface Backlog {
  readonly clock: ManualClock
  readonly sluice: Sluice
  readonly starts: number[]
  /** The number of each rejected job, with its error. */
  readonly rejected: Map<number, RateLimitRejected>
  readonly told: () => number
}

/** A lane of so many waiting jobs under one limit. */
async function backlog(policy: Policy): Promise<Backlog> {
  const clock = createManualClock()
  const starts: number[] = []
  const rejected = new Map<number, RateLimitRejected>()
  let told = 0
  const call = task('call', input<{ n: number }>(), {
    limits: [limit('strict', policy)],
    run: ({ n }) => void starts.push(n),
    onError: (error, job) => {
      told++
      rejected.set(job.input.n, error as RateLimitRejected)
    },
  })
  const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [call], clock })
  await sluice.start()
  await call.enqueueMany(Array.from({ length: JOBS }, (_, n) => ({ n })))
  await clock.advance('1ms')
  return { clock, sluice, starts, rejected, told: () => told }
}

describe(`behind a closed budget, ${JOBS} jobs deep`, () => {
  test('a limit that drops rejects all at once, each job once', async () => {
    const { sluice, starts, rejected, told } = await backlog({ rate: 1, per: '10s', burst: 1, onLimit: 'drop' })
    expect(starts).toEqual([0])
    expect([rejected.size, told()]).toEqual([JOBS - 1, JOBS - 1])
    expect(rejected.get(JOBS - 1)).toMatchObject({ name: 'RateLimitRejected', limit: 'strict' })
    expect(await sluice.jobs.list({ states: ['available'] })).toEqual([])
    await sluice.stop()
  })

  test('a longest wait rejects exactly those that cannot start in time, each once, and the others start', async () => {
    const { clock, sluice, starts, rejected, told } = await backlog({ rate: 100, per: '1s', burst: 1, maxWait: '20s' })
    expect([rejected.size, told()]).toEqual([JOBS - 2001, JOBS - 2001])
    expect([rejected.has(2000), rejected.has(2001)]).toEqual([false, true])
    expect(rejected.get(2001)?.expectedStart?.getTime()).toBe(clock.now() - 1 + 20_010)
    await clock.advance('20s')
    expect(starts).toEqual(Array.from({ length: 2001 }, (_, n) => n))
    expect(told()).toBe(JOBS - 2001)
    await sluice.stop()
  })

  test('a limit that reschedules puts each off to its own expected start', async () => {
    const { clock, sluice, starts, told } = await backlog({ rate: 100, per: '1s', burst: 1, onLimit: 'reschedule' })
    expect(await sluice.jobs.list({ states: ['available'] })).toEqual([])
    const [last] = await sluice.jobs.list({ limit: 1 })
    const explained = await sluice.jobs.explain(last!.id)
    expect(explained).toMatchObject({ job: { state: 'scheduled' }, position: JOBS - 1, exact: true })
    expect(explained.expectedStart?.getTime()).toBe(clock.now() - 1 + (JOBS - 1) * 10)
    await clock.advance('5s')
    expect(starts).toEqual(Array.from({ length: 501 }, (_, n) => n))
    expect(told()).toBe(0)
    await sluice.stop()
  })
})

test('a limit that drops ends a job that waits for another one when its last unit is gone, and names itself', async () => {
  const clock = createManualClock()
  const rejected: string[] = []
  const partner = limit('partner', { rate: 2, per: '10m', burst: 2, onLimit: 'drop' })
  const tenant = limit('tenant', { rate: 1, per: '1h', burst: 1 })
  const sync = task('sync', input<{ tenant: string }>(), {
    limits: [partner, tenant.by((of) => of.tenant)],
    run: () => undefined,
    onError: (error, job) => {
      const { limit: name } = error as RateLimitRejected
      rejected.push(`${job.input.tenant} by ${name} at ${clock.now() - start}`)
    },
  })
  const sluice = new Sluice({ store: 'sqlite::memory:', tasks: [sync], clock })
  await sluice.start()
  const start = clock.now()
  await sync.enqueue({ tenant: 'a' })
  await clock.advance('1s')
  await sync.enqueueMany([{ tenant: 'a' }, { tenant: 'a' }])
  await clock.advance('1s')
  expect(rejected).toEqual([])
  await sync.enqueue({ tenant: 'b' })
  await clock.advance('1ms')
  expect(rejected.map((each) => each.split(' at ')[0])).toEqual(['a by partner', 'a by partner'])
  expect(Number(rejected[0]?.split(' at ')[1])).toBeLessThanOrEqual(2001)
  await sluice.stop()
})
