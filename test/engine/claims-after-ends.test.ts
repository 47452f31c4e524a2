// The end of a run frees a slot, and perhaps permits. A claim follows it only where one of them lets a job start.
import { describe, expect, test } from 'vitest'
import { input, limit, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { countClaims, createEngineHarness } from './engine-harness.ts'

describe.each(await everyStore('claims after ends'))('on $name', ({ create }) => {
  async function begin(concurrency = 10) {
    const { clock, create: createEngine, start } = createEngineHarness()
    const api = limit('api', { rate: 100, per: '1m' })
    const store = create()
    const starts: string[] = []
    const call = task('call', input<string>(), {
      limits: [api],
      run: async (name) => {
        starts.push(`${name} ${clock.monotonicUs() / 1e6 - fromS}`)
        await clock.sleep('3s')
      },
    })
    const engine = await start({ store, tasks: [call], queues: { default: concurrency } })
    const rest = task('rest', { run: () => undefined })
    const other = createEngine({ store, tasks: [rest], limits: [api] })
    await clock.advance(0)
    const fromS = clock.monotonicUs() / 1e6
    return { clock, engine, other, call, starts }
  }

  test('no claim follows the end of a run that paid for its start alone', async () => {
    const { clock, engine, call, starts } = await begin()
    await call.enqueueMany(['a', 'b', 'c'])
    await clock.advance('1s')
    const claims = await countClaims(engine)
    await clock.advance('3s')
    expect([starts.length, claims()]).toEqual([3, 0])
    expect(await engine.jobs.list({ states: ['completed'] })).toHaveLength(3)
  })

  test('a job that waits for a slot starts at the end of such a run', async () => {
    const { clock, call, starts } = await begin(1)
    await call.enqueueMany(['a', 'b', 'c'])
    await clock.advance('10s')
    expect(starts).toEqual(['a 0', 'b 3', 'c 6'])
  })

  test('a job that waits for the permit of a limit that had none when the run began starts at its end', async () => {
    const { clock, engine, call, starts } = await begin()
    await call.enqueue('a')
    await clock.advance('1s')
    await engine.limits.override('api', undefined, { concurrency: 1 })
    await call.enqueueMany(['b', 'c'])
    await clock.advance('10s')
    expect(starts).toEqual(['a 0', 'b 3', 'c 6'])
  })

  test('so it does where another process made that change', async () => {
    const { clock, other, call, starts } = await begin()
    await call.enqueue('a')
    await clock.advance('1s')
    await other.limits.override('api', undefined, { concurrency: 1 })
    await call.enqueueMany(['b', 'c'])
    await clock.advance('10s')
    expect(starts).toEqual(['a 0', 'b 3', 'c 6'])
  })
})
