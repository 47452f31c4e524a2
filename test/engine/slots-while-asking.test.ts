// A slot that comes free while a claim runs, which has not asked for it.
import { expect, test } from 'vitest'
import { input, task } from '../../src/exports/index.ts'
import { internalsOf } from '../../src/engine/internals.ts'
import { onPostgres, onSqlite } from '../stores.ts'
import { createEngineHarness } from './engine-harness.ts'

const postgres = await onPostgres('slots that come free while a claim runs')

test.each([onSqlite, ...(postgres ? [postgres] : [])])(
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
