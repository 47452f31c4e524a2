// A process of plain code is forgotten 30 s after its last beat, and its waiting calls with it.
import { describe, expect, it } from 'vitest'
import { createStore } from '../../src/store/open.ts'
import { Membership } from '../../src/store/limiter/membership.ts'
import { USUAL_RETENTION } from '../../src/store/contract/retention.ts'
import { createManualClock } from '../../src/testing/manual-clock.ts'

describe('a process of plain code', () => {
  it('rests while no call waits, and beats again for one that begins to wait', async () => {
    const clock = createManualClock()
    const store = await createStore('sqlite::memory:', { clock, durability: 'process', retention: USUAL_RETENTION })
    await store.open()
    const seen = { beats: 0, waits: false }
    const beat = async (): Promise<boolean> => {
      seen.beats++
      return seen.waits
    }
    const member = new Membership({ store, clock, queue: 'q', alone: true, woke: () => undefined, beat })
    const worker = await member.join()
    for (let n = 0; n < 4; n++) await clock.advance('5s')
    expect(seen.beats).toBe(1)
    seen.waits = true
    expect(await member.join()).toBe(worker)
    for (let n = 0; n < 4; n++) await clock.advance('5s')
    expect(seen.beats).toBeGreaterThanOrEqual(4)
    await member.leave()
    await store.close()
  })
})
