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

  test('stripes stay until an engine names others, and jobs run on', async () => {
    const { join, enqueue, ran } = fleet()
    const known = async (options: QueueOptions): Promise<number | undefined> => {
      const store = await remoteOf(await join(options)).store()
      return (await store.queues()).find(({ name }) => name === 'q')?.stripes
    }
    expect(await known({ stripes: 8 })).toBe(8)
    await enqueue(5)
    expect(await known({})).toBe(8)
    expect(await known({ stripes: 1 })).toBe(1)
    await enqueue(5)
    expect(ran()).toBe(10)
  })

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

test.each<[unknown, string]>([
  [{ stripes: 0 }, 'queues.q.stripes is invalid: 0. Expected a whole number from 1 to 64.'],
  [{ stripes: 65 }, 'queues.q.stripes is invalid: 65. Expected a whole number from 1 to 64.'],
  [{ stripes: 1.5 }, 'queues.q.stripes is invalid: 1.5.'],
  [{ stripes: '4' }, "queues.q.stripes is invalid: '4'."],
  [{ stripes: null }, 'queues.q.stripes is invalid: null.'],
  [{ stripes: Number.NaN }, 'queues.q.stripes is invalid: NaN.'],
  [{ stripe: 4 }, 'did you mean stripes?'],
])('stripes that are none are refused: %j', (options, message) => {
  const queues = { q: options as QueueOptions }
  expect(() => createEngineHarness().create({ tasks: [], queues })).toThrow(message)
})

test('stripes are an option of a queue alone', () => {
  const harness = createEngineHarness()
  expect(() => harness.create({ tasks: [], stripes: 2 } as never)).toThrow('stripes')
  expect(() => task('t', { stripes: 2, run: () => undefined } as never)).toThrow('stripes')
})
