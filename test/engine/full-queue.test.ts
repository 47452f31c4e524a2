// Jobs become due by themselves while no slot is free: a delayed job becomes available, and its wait begins and ends.
import { describe, expect, test } from 'vitest'
import { input, limit, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness, type EngineHarness } from './engine-harness.ts'

const hourly = limit('hourly', { every: '1h', maxWait: '1500ms' })

describe.each(await everyStore('queues that are full'))('on $name', ({ create }) => {
  async function full() {
    const harness: EngineHarness = createEngineHarness()
    const slow = task('slow', input<undefined>(), { run: () => harness.clock.sleep('1h') })
    const limited = task('limited', input<undefined>(), {
      limits: [hourly],
      retry: { attempts: 1 },
      run: () => undefined,
    })
    const engine = await harness.start({ store: create(), tasks: [slow, limited], queues: { default: 1 } })
    await slow.enqueue()
    // Off the beat of any timer.
    await harness.clock.advance('5300ms')
    const stateOf = async (id: string): Promise<string | undefined> => (await engine.jobs.get(id))?.state
    return { ...harness, engine, slow, limited, stateOf }
  }

  test('a delayed job becomes available when it is due', async () => {
    const { clock, slow, stateOf } = await full()
    const { id } = await slow.enqueue(undefined, { delay: '1100ms' })
    await clock.advance('1099ms')
    expect(await stateOf(id)).toBe('scheduled')
    await clock.advance('1ms')
    expect(await stateOf(id)).toBe('available')
  })

  test('its maxWait begins then, and ends on time', async () => {
    const { clock, limited, stateOf } = await full()
    const { id } = await limited.enqueue(undefined, { delay: '1100ms' })
    await clock.advance('2600ms')
    expect(await stateOf(id)).toBe('available')
    await clock.advance('1ms')
    expect(await stateOf(id)).toBe('discarded')
  })
})
