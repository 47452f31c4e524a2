import { describe, expect, it } from 'vitest'
import { type EnqueueOptions, input, limit, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness } from './engine-harness.ts'

/** More than one claim reads. */
const KEYS = 70
describe.each(await everyStore('many keys that are due at once'))(
  'many keys that are due at once, on $name',
  ({ create }) => {
    const r = limit('r', { rate: 10, per: '1s', burst: 1 })
    const calls = (queue: string, count: number, keys: number): EnqueueOptions<string>[] =>
      Array.from({ length: count }, (_, i) => ({ queue, limits: [r.key(`${queue}${i % keys}`)] }))

    it.each([1, 4])('in a queue without a worker keep no other waiting, stripes %i', async (stripes) => {
      const { clock, start, stop } = createEngineHarness()
      const store = create()
      const starts: string[] = []
      const work = task('work', input<string>(), { run: (name) => void starts.push(name) })
      const options = { tasks: [work], store, limits: [r] }
      const gone = await start({ ...options, queues: { gone: { concurrency: 200 } } })
      await Promise.all(calls('gone', 2 * KEYS, KEYS).map((call) => gone.enqueue(work, 'gone', call)))
      await clock.advance('50ms')
      await stop(gone)
      const n = starts.length
      const engine = await start({ ...options, queues: { here: { concurrency: 20, stripes } } })
      await clock.advance('100ms')
      await Promise.all(calls('here', 12, 3).map((call) => engine.enqueue(work, 'here', call)))
      await clock.advance('300ms')
      expect(starts.slice(n)).toHaveLength(12)
    })

    it('in a full queue keep no other waiting', async () => {
      const { clock, start } = createEngineHarness()
      const starts: string[] = []
      const work = task('work', input<string>(), { run: (name) => void starts.push(name) })
      const long = task('long', { run: () => clock.sleep('1m') })
      const queues = { full: { concurrency: 1 }, here: { concurrency: 20 } }
      const engine = await start({ tasks: [work, long], store: create(), limits: [r], queues })
      await Promise.all(calls('full', KEYS, KEYS).map((call) => engine.enqueue(work, 'full', call)))
      await clock.advance(0)
      await engine.enqueue(long, undefined, { queue: 'full', priority: 9 })
      await Promise.all(calls('full', KEYS, KEYS).map((call) => engine.enqueue(work, 'full', call)))
      await clock.advance('200ms')
      const n = starts.length
      await Promise.all(calls('here', 12, 3).map((call) => engine.enqueue(work, 'here', call)))
      await clock.advance('300ms')
      expect(starts.slice(n)).toHaveLength(12)
    })

    it('start ahead at their instant', async () => {
      const { clock, start } = createEngineHarness()
      const starts: number[] = []
      const work = task('work', input<string>(), { run: () => void starts.push(clock.monotonicUs() / 1000) })
      const engine = await start({
        tasks: [work],
        store: create(),
        limits: [r],
        ahead: '50ms',
        queues: { here: { concurrency: 10 } },
      })
      await Promise.all(calls('here', 2 * KEYS, KEYS).map((call) => engine.enqueue(work, 'here', call)))
      await clock.advance('150ms')
      expect(starts).toHaveLength(2 * KEYS)
    })
  },
)
