// Slots that come free while a claim runs, which has not asked for them.
import { expect, test } from 'vitest'
import { input, task } from '../../src/exports/index.ts'
import { internalsOf } from '../../src/engine/internals.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness } from './engine-harness.ts'

const stores = await everyStore('slots that come free while a claim runs')

test.each(stores)(
  'a slot that the end of a run frees, once written, is filled though a claim ran then, on $name',
  async (kind) => {
    const { clock, start } = createEngineHarness()
    const begun: string[] = []
    const work = task('work.item', input<'ends' | 'stays'>(), {
      async run(kept) {
        begun.push(kept)
        if (kept === 'stays') await clock.sleep('1h')
      },
    })
    const engine = await start({ store: kind.create(), tasks: [work], queues: { default: { concurrency: 2 } } })
    const { store } = await internalsOf(engine).open()
    const [written, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const settle = store.settle.bind(store)
    store.settle = async (...end) => {
      const settled = await settle(...end)
      await written.promise
      return settled
    }
    // Three ends that are not written leave one slot of four.
    await work.enqueueMany(['ends', 'ends', 'ends'])
    await clock.advance('10ms')
    expect(begun).toHaveLength(3)
    const claim = store.claim.bind(store)
    const asked: number[] = []
    store.claim = async (request) => {
      const claimed = await claim(() => {
        const { queues } = request()
        asked.push(queues[0]!.slots)
        return request()
      })
      if (claimed.jobs.length > 0) await answered.promise
      return claimed
    }
    await work.enqueueMany(Array.from({ length: 5 }, () => 'stays'))
    await clock.advance('10ms')
    expect(asked.at(-1)).toBe(1)
    written.resolve()
    await clock.advance('10ms')
    answered.resolve()
    await clock.advance('10ms')
    expect(begun.filter((kept) => kept === 'stays')).toHaveLength(2)
  },
)

test.each(stores)(
  'slots that come free while a claim runs make no other one run, if it has slots left, on $name',
  async (kind) => {
    const { clock, start } = createEngineHarness()
    const ends: (() => void)[] = []
    const work = task('work.item', input<number>(), { run: () => new Promise<void>((end) => ends.push(end)) })
    const engine = await start({ store: kind.create(), tasks: [work], queues: { default: { concurrency: 4 } } })
    const { store } = await internalsOf(engine).open()
    await work.enqueueMany([1, 2])
    await clock.advance('10ms')
    expect(ends).toHaveLength(2)
    const claim = store.claim.bind(store)
    const answered = Promise.withResolvers<void>()
    let claims = 0
    store.claim = async (request) => {
      claims++
      const claimed = await claim(request)
      await answered.promise
      return claimed
    }
    await work.enqueue(3)
    await clock.advance('10ms')
    for (const end of ends) end()
    await clock.advance('10ms')
    answered.resolve()
    await clock.advance('10ms')
    expect([ends.length, claims]).toEqual([3, 1])
    await work.enqueueMany([4, 5, 6, 7])
    await clock.advance('10ms')
    expect(ends).toHaveLength(6)
  },
)
