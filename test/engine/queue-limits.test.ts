// Limits that code gives to a queue as a whole live in the store: they hold for engines that say nothing of them, and for workers outside.
import { remoteOf } from '../../src/remote/remote.ts'
import { describe, expect, test } from 'vitest'
import { input, limit, type QueueOptions, type Sluice, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness, type EngineHarness } from './engine-harness.ts'

const few = limit('few', { window: 'sliding', max: 2, per: '1h' })
const more = limit('more', { window: 'sliding', max: 5, per: '1h' })

describe.each(await everyStore("a queue's own limits"))('on $name', ({ create }) => {
  interface Fleet {
    readonly harness: EngineHarness
    /** Starts an engine that says this of the queue, and lets it work. */
    readonly join: (options: QueueOptions) => Promise<Sluice>
    readonly enqueue: (count: number) => Promise<void>
    readonly ran: () => number
  }

  function fleet(): Fleet {
    const harness = createEngineHarness()
    const store = create()
    let ran = 0
    const made = () => task('t', input<undefined>(), { queue: 'q', run: () => void ran++ })
    const engines: { readonly engine: Sluice; readonly task: ReturnType<typeof made> }[] = []
    return {
      harness,
      async join(options) {
        const own = made()
        const engine = await harness.start({ store, tasks: [own], queues: { q: options } })
        engines.push({ engine, task: own })
        await harness.clock.advance('1s')
        return engine
      },
      async enqueue(count) {
        const { engine, task: own } = engines.at(-1)!
        for (let n = 0; n < count; n++) await engine.enqueue(own)
        await harness.clock.advance('10s')
      },
      ran: () => ran,
    }
  }

  test('they hold for an engine that says nothing of them', async () => {
    const { join, enqueue, ran } = fleet()
    await join({ concurrency: 0, limits: [few] })
    await join({})
    await enqueue(20)
    expect(ran()).toBe(2)
  })

  test('they hold for workers outside', async () => {
    const { join, enqueue } = fleet()
    await join({ concurrency: 0, limits: [few] })
    const engine = await join({ concurrency: 0 })
    await enqueue(20)
    const request = { worker: 'w', queues: ['q'], count: 9, leaseUs: 60_000_000, waitMs: 0 }
    expect(await remoteOf(engine).fetch(request)).toHaveLength(2)
    expect(await remoteOf(engine).fetch(request)).toHaveLength(0)
  })

  test('an empty list removes them, and what waits starts at once', async () => {
    const { harness, join, enqueue, ran } = fleet()
    await join({ limits: [few] })
    await enqueue(20)
    expect(ran()).toBe(2)
    await join({ limits: [] })
    await harness.clock.advance('10s')
    expect(ran()).toBe(20)
  })

  test('the later start of an engine replaces them, unless they have a higher version', async () => {
    const { harness, join, enqueue, ran } = fleet()
    await join({ limits: [few] })
    await enqueue(20)
    expect(ran()).toBe(2)
    await join({ limits: [more], version: 1 })
    await harness.clock.advance('10s')
    expect(ran()).toBe(7)
    await join({ limits: [] })
    await harness.clock.advance('10s')
    expect(ran()).toBe(7)
  })
})

test.each<[QueueOptions, string]>([
  [{ limits: [few], version: -1 }, 'queues.q.version is invalid: -1. Expected a whole number from 0.'],
  [{ version: 1 }, 'queues.q.version needs limits'],
])('a version that is none is refused: %o', (options, message) => {
  expect(() => createEngineHarness().create({ tasks: [], queues: { q: options } })).toThrow(message)
})
