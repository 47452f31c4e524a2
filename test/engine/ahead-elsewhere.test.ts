import { describe, expect, it } from 'vitest'
import { internalsOf } from '../../src/engine/internals.ts'
import { limit, type Policy, type Sluice, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness } from './engine-harness.ts'

const SLOW: Policy = { rate: 2, per: '1s', burst: 1 }

/** Changes by which the starts that another engine holds go back. */
const CHANGES: readonly [string, (engine: Sluice, held: string) => Promise<unknown>][] = [
  ['a penalty', (engine) => engine.limits.penalize('r', undefined, '1h')],
  ['a pause of the limit', (engine) => engine.limits.pause('r')],
  ['a pause of the queue', async (engine) => (await internalsOf(engine).open()).store.pauseQueue('default', true)],
  ['an override', (engine) => engine.limits.override('r', undefined, { concurrency: 0 })],
  ['a cancel', (engine, held) => engine.jobs.cancel(held)],
]

describe.each(await everyStore('starts held by another engine'))(
  'starts held by another engine, on $name',
  ({ create, name }) => {
    describe.each([
      ['with nothing behind them', 2],
      ['with others that wait', 9],
    ])('%s', (_, jobs) => {
      it.each(CHANGES)('go back at %s, long before their instant', async (what, change) => {
        const { clock, start } = createEngineHarness()
        const store = create()
        let runs = 0
        const work = task('work', { limits: [limit('r', SLOW)], run: () => void runs++ })
        const rest = task('rest', { queue: 'other', run: () => undefined })
        const holder = await start({ tasks: [work], store, ahead: '1s', queues: { default: { concurrency: 4 } } })
        // It may claim between the change and the next claim of the holder.
        const other = await start({
          tasks: [rest],
          store,
          limits: [limit('r', SLOW)],
          queues: { other: { concurrency: 1 } },
        })
        const ids = (await work.enqueueMany(Array.from({ length: jobs }, () => undefined))).map(({ id }) => id)
        await clock.advance('10ms')
        const state = async (): Promise<unknown> => (await holder.jobs.get(ids[1]!))?.state
        expect(await state()).toBe('active')
        await change(other, ids[1]!)
        const back = what === 'a cancel' ? 'cancelled' : 'available'
        // PostgreSQL announces the change in real time.
        for (let i = 0; i < 40 && (await state()) !== back; i++) {
          await clock.advance('10ms')
          if (name === 'postgres') await new Promise((resolve) => setTimeout(resolve, 2))
        }
        expect([await state(), runs]).toEqual([back, 1])
      })
    })
  },
)
