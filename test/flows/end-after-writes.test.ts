import { describe, expect, test } from 'vitest'
import { input } from '../../src/exports/index.ts'
import { workflow } from '../../src/exports/flows.ts'
import type { Settlement } from '../../src/jobs/settlement.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { createStore } from '../../src/store/open.ts'
import { FlowsHarness, STORES } from './flows-harness.ts'

const HOUR_US = 3_600_000_000
const RETENTION = { completedUs: HOUR_US, cancelledUs: HOUR_US, discardedUs: HOUR_US }

/** A store that tells when a run writes a step and goes on, and notes settlements made before that was answered. */
function watched(real: Store): { store: Store; began: Promise<void>; overlaps: string[] } {
  const overlaps: string[] = []
  let open = 0
  let begin = (): void => undefined
  const began = new Promise<void>((resolve) => (begin = resolve))
  const settle: Store['settle'] = async (worker, settlement: Settlement, again) => {
    const stays = settlement.kind === 'next' && settlement.move.then.kind === 'stay'
    if (!stays && open > 0) overlaps.push(settlement.kind)
    const answer = real.settle(worker, settlement, again)
    if (!stays) return answer
    open++
    begin()
    return answer.finally(() => open--)
  }
  const store = new Proxy(real, {
    get(target, name) {
      if (name === 'settle') return settle
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value as () => unknown).bind(target) : value
    },
  })
  return { store, began, overlaps }
}

describe.each(STORES)('a body on $name', (kind) => {
  test('that ends while a step beside it is being written ends after that step is on record', async () => {
    const w = new FlowsHarness(kind)
    const { store, began, overlaps } = watched(
      await createStore(w.url, { clock: w.clock, durability: 'process', retention: RETENTION }),
    )
    const hasty = workflow('hasty', input<number>(), {
      run: async (_, flow) => {
        void flow.step('beside', () => 1)
        await began
        return 'ended'
      },
    })
    const engine = await w.start({ store, workflows: [hasty] })
    const flow = await hasty.start(1)
    await w.clock.advance('1s')
    expect(await flow.result()).toBe('ended')
    expect(overlaps).toEqual([])
    expect((await engine.flows.inspect(flow.id))?.steps).toMatchObject([{ name: 'beside', state: 'done' }])
  })
})
