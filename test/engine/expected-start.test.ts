import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { input, limit, type Policy, Sluice, silentLogger, task } from '../../src/exports/index.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import { sized } from '../sized.ts'

const SEED = Number(process.env['SEED'] ?? 20_260_101)

interface Call {
  readonly queue: string
  readonly weight: number
  readonly priority: number
}

const per = fc.integer({ min: 100, max: 5000 })
const max = fc.integer({ min: 4, max: 12 })
const policies: fc.Arbitrary<Policy> = fc.oneof(
  fc.record({ rate: fc.integer({ min: 1, max: 12 }), per, burst: max, startEmpty: fc.boolean() }),
  fc.record({ window: fc.constant('sliding' as const), max, per }),
  fc.record({ window: fc.constant('fixed' as const), max, per }),
  fc.record({ window: fc.constant('sliding' as const), max, per, guard: fc.integer({ min: 0, max: 50 }) }),
  fc.record({ every: per }),
)

function calls(queues: readonly string[], weights: fc.Arbitrary<number>): fc.Arbitrary<Call[]> {
  const call = fc.record({
    queue: fc.constantFrom(...queues),
    weight: weights,
    priority: fc.constantFrom(0, 0, 0, 5, -5),
  })
  return fc.array(call, { minLength: 4, maxLength: 30 })
}

/** Lets a backlog build up, asks of every waiting job when it will start, and answers how far off that was, in ms. */
async function errors(
  policy: Policy,
  first: Call[],
  then: Call[],
  pauseMs: number,
  more?: Policy,
  both: (call: Call) => boolean = () => true,
): Promise<{ late: number[]; exact: boolean[] }> {
  const clock = createManualClock()
  const starts = new Map<string, number>()
  const gate = limit('gate', policy)
  const second = limit('second', more ?? policy)
  const work = task('work', input<Call>(), {
    limits: [
      gate.by(() => 'k', { weight: (call) => call.weight }),
      ...(more ? [second.by((call: Call) => (both(call) ? 'k' : null))] : []),
    ],
    run: (_, ctx) => void starts.set(ctx.job.id, clock.now()),
  })
  const queues = { a: { concurrency: 1000 }, b: { concurrency: 1000 }, c: { concurrency: 1000 } }
  const engine = new Sluice({ store: 'sqlite::memory:', tasks: [work], queues, clock, logger: silentLogger })
  const enqueue = (list: Call[]): Promise<{ id: string }[]> =>
    Promise.all(list.map((call) => engine.enqueue(work, call, { queue: call.queue, priority: call.priority })))
  await engine.start()
  const jobs = await enqueue(first)
  await clock.advance(pauseMs)
  jobs.push(...(await enqueue(then)))
  await clock.advance(0)
  const waiting = jobs.filter(({ id }) => !starts.has(id))
  const told = await Promise.all(waiting.map(({ id }) => engine.jobs.explain(id)))
  while (starts.size < jobs.length) await clock.advance('10s')
  await engine.stop()
  const late = told.map(
    ({ job, expectedStart }) => Math.floor(starts.get(job.id) ?? NaN) - (expectedStart?.getTime() ?? NaN),
  )
  return { late, exact: told.map(({ exact }) => exact) }
}

describe('the expected start of a waiting job', () => {
  const one = fc.constant(1)
  const mixed = fc.integer({ min: 1, max: 4 })

  test.each([
    ['of one weight in one queue', ['a'], one],
    ['of several weights in one queue', ['a'], mixed],
    ['of one weight in three queues', ['a', 'b', 'c'], one],
    ['of several weights in three queues', ['a', 'b', 'c'], mixed],
  ] as const)('is when it starts, under every rule, in backlogs %s', async (_, queues, weights) => {
    let checked = 0
    await fc.assert(
      fc.asyncProperty(
        policies,
        calls(queues, weights),
        calls(queues, weights),
        fc.integer({ min: 0, max: 3000 }),
        async (policy, first, then, pauseMs) => {
          const { late, exact } = await errors(policy, first, then, pauseMs)
          expect(late).toEqual(late.map(() => 0))
          expect(exact).not.toContain(false)
          checked += late.length
        },
      ),
      { numRuns: sized(20, 300), seed: SEED },
    )
    expect(checked).toBeGreaterThan(100)
  })

  test('is exact or a lower bound, as it says, where only some of the line need a second limit', async () => {
    let bounds = 0
    await fc.assert(
      fc.asyncProperty(policies, policies, calls(['a', 'b'], mixed), async (policy, more, list) => {
        const { late, exact } = await errors(policy, list, list, 0, more, (call) => call.queue === 'b')
        for (const [i, ms] of late.entries()) {
          if (exact[i]) expect(ms).toBe(0)
          else expect(ms).toBeGreaterThanOrEqual(0)
          if (!exact[i]) bounds++
        }
      }),
      { numRuns: sized(30, 400), seed: SEED },
    )
    expect(bounds).toBeGreaterThan(20)
  })

  test('is never later than the start where a second limit holds it too, and says that it is no more than that', async () => {
    await fc.assert(
      fc.asyncProperty(policies, policies, calls(['a', 'b'], mixed), async (policy, more, list) => {
        const { late, exact } = await errors(policy, list, list, 0, more)
        for (const ms of late) expect(ms).toBeGreaterThanOrEqual(0)
        expect(exact).not.toContain(true)
      }),
      { numRuns: sized(20, 300), seed: SEED },
    )
  })
})
