// Missed occurrences that run one after the other, each once the last one has ended.
import { expect, test } from 'vitest'
import { task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness } from './engine-harness.ts'

test.each(await everyStore('missed occurrences'))(
  'missed occurrences run one right after the other beside free slots, on $name',
  async ({ create }) => {
    const { clock, start } = createEngineHarness()
    const ends: (() => void)[] = []
    const tick = task('tick', { run: () => new Promise<void>((end) => ends.push(end)) })
    const options = { store: create(), tasks: [tick], queues: { default: { concurrency: 5 } } }
    const first = await start(options)
    await first.schedule(tick, null, { every: '1m', name: 'ticks', onMissed: 'catchUp' })
    await first.stop()
    await clock.advance('5m')
    await start(options)
    for (let runs = 1; runs <= 4; runs++) {
      await clock.advance('100ms')
      expect([runs, ends.length]).toEqual([runs, runs])
      ends.at(-1)?.()
    }
  },
)
