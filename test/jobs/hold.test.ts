import { describe, expect, it } from 'vitest'
import type { Clock } from '../../src/base/clock.ts'
import { Hold } from '../../src/jobs/hold.ts'
import { createManualClock } from '../../src/exports/testing.ts'
import type { GrantedJob } from '../../src/jobs/job.ts'
import * as fc from '../properties.ts'

interface Start {
  /** Its instant, in ms. */
  readonly at: number
  /** The strict bucket that it uses, by key; absent: none. */
  readonly key?: string
  /** How far apart that bucket keeps its starts, in ms. */
  readonly gap?: number
  /** The units that it takes of a window of 4 in 1 s with a guard of 20 ms. */
  readonly units?: number
}

let seq = 0

const WINDOW = { limit: 'w', key: '', max: 4, periodUs: 1_000_000, guardUs: 20_000 }

function granted({ at, key, gap = 10, units }: Start): GrantedJob {
  const strict = key === undefined ? {} : { strict: [{ limit: 'r', key, gapUs: gap * 1000 }] }
  const windows = units === undefined ? {} : { windows: [{ ...WINDOW, units }] }
  return { seq: ++seq, queue: 'q', startedUs: at * 1000, uses: [], ...strict, ...windows } as unknown as GrantedJob
}

/** A hold on a clock whose event loop may stall, and the starts that it began and gave back, in ms. */
class Stage {
  readonly clock = createManualClock()
  readonly begun: [at: number, now: number][] = []
  readonly back: number[] = []
  readonly timers: ('fine' | 'whole')[] = []
  /** No timer fires within it. */
  stalled: readonly [fromMs: number, toMs: number] = [0, 0]
  /** Each begin keeps the processor for this long. */
  beginMs = 0
  /** How far the store's clock was set. */
  stepMs = 0
  #busyMs = 0
  readonly hold: Hold

  constructor(aheadMs = 20, claimsInThread = false) {
    const timer = (kind: 'fine' | 'whole') => (run: () => void, delayMs: number) => {
      this.timers.push(kind)
      const dueMs = this.#manualMs + delayMs
      const [fromMs, toMs] = this.stalled
      return this.clock.setTimer(run, dueMs >= fromMs && dueMs < toMs ? toMs - this.#manualMs : delayMs)
    }
    const clock: Clock = {
      now: () => this.clock.now(),
      monotonicUs: () => this.clock.monotonicUs() + this.#busyMs * 1000,
      bootId: this.clock.bootId,
      setTimer: timer('whole'),
      setFineTimer: timer('fine'),
    }
    this.hold = new Hold({
      clock,
      store: { nowUs: () => (this.nowMs + this.stepMs) * 1000, claimsInThread },
      aheadUs: aheadMs * 1000,
      budgets: null,
      starter: {
        begin: (job) => {
          this.begun.push([job.startedUs / 1000, this.nowMs])
          this.#busyMs += this.beginMs
        },
        giveBack: async (jobs) => void this.back.push(...jobs.map((job) => job.startedUs / 1000)),
        claiming: () => null,
      },
    })
  }

  get #manualMs(): number {
    return this.clock.monotonicUs() / 1000
  }

  get nowMs(): number {
    return this.#manualMs + this.#busyMs
  }

  /** A claim of this instant is answered now. */
  answer(claimedMs: number, ...starts: readonly Start[]): void {
    this.hold.add(starts.map(granted), claimedMs * 1000)
  }

  async until(ms: number): Promise<void> {
    await this.clock.advance(ms - this.nowMs)
  }
}

const of = (key: string, ...instants: readonly number[]): Start[] => instants.map((at) => ({ at, key }))

describe('held starts', () => {
  it('begin at their own instants, and none with one that is due a moment before', async () => {
    const stage = new Stage()
    stage.answer(0, { at: 13 }, { at: 10 }, { at: 0 })
    expect(stage.begun).toEqual([[0, 0]])
    expect(stage.hold.count('q')).toBe(2)
    await stage.until(12)
    expect(stage.begun).toEqual([
      [0, 0],
      [10, 10],
    ])
    await stage.until(20)
    expect(stage.begun.at(-1)).toEqual([13, 13])
    expect([stage.hold.count('q'), stage.hold.isEmpty, stage.clock.next()]).toEqual([0, true, null])
  })

  it.each([
    ['on their thread', true],
    ['at a server', false],
  ])(
    'come soon if the last claim took longer than is left until the next one, and claims run %s',
    async (_, inThread) => {
      const stage = new Stage(20, inThread)
      stage.hold.terms()
      await stage.until(4)
      stage.answer(0, { at: 10 })
      await stage.until(6)
      expect(stage.hold.beginsSoon).toBe(false)
      await stage.until(7)
      expect(stage.hold.beginsSoon).toBe(inThread)
      await stage.until(10)
      expect(stage.hold.beginsSoon).toBe(false)
    },
  )

  it('of one instant begin in the order of their claim', async () => {
    const stage = new Stage()
    const order: number[] = []
    const jobs = [granted({ at: 10 }), granted({ at: 10 })]
    stage.hold.add(jobs, 0)
    const seqs = stage.hold.take(() => true).map((job) => (order.push(job.seq), job.seq))
    expect(seqs).toEqual(jobs.map((job) => job.seq))
  })

  it('that are taken out leave no count and no timer', async () => {
    const stage = new Stage()
    stage.answer(0, { at: 10 }, { at: 15 })
    expect(stage.hold.take((job) => job.startedUs === 10_000)).toHaveLength(1)
    expect([stage.hold.count('q'), stage.clock.next()]).toEqual([1, 15])
    stage.hold.take(() => true)
    expect([stage.hold.count('q'), stage.clock.next()]).toEqual([0, null])
    await stage.until(30)
    expect(stage.begun).toEqual([])
  })
})

describe('the distance between starts of a strict bucket', () => {
  it('is nine tenths of that of their instants until a late start is made up', async () => {
    const stage = new Stage()
    await stage.until(5)
    stage.answer(0, ...of('a', 0, 10, 20))
    await stage.until(20)
    stage.answer(20, ...of('a', 30, 40, 50, 60))
    await stage.until(100)
    expect(stage.begun.map(([, now]) => now)).toEqual([5, 14, 23, 32, 41, 50, 60])
  })

  it('is never shorter than that, by no microsecond', async () => {
    const stage = new Stage()
    await stage.until(0.5)
    stage.answer(0, ...of('a', 0, 1.111))
    await stage.until(5)
    expect(stage.begun.map(([, now]) => now)).toEqual([0.5, 1.5])
  })

  it('delays no start of another bucket', async () => {
    const stage = new Stage()
    await stage.until(5)
    stage.answer(0, ...of('a', 0, 10), { at: 12 }, { at: 11, key: 'b' })
    await stage.until(100)
    expect(stage.begun).toEqual([
      [0, 5],
      [11, 11],
      [12, 12],
      [10, 14],
    ])
  })

  it('of two such buckets is the longer one', async () => {
    const stage = new Stage()
    await stage.until(5)
    stage.answer(0, ...of('a', 0))
    await stage.until(9)
    stage.answer(9, ...of('b', 9))
    const strict = ['a', 'b'].map((key) => ({ limit: 'r', key, gapUs: 10_000 }))
    stage.hold.add([{ ...granted({ at: 10 }), strict }], 9000)
    await stage.until(100)
    expect(stage.begun.at(-1)).toEqual([10, 14])
  })

  it('counts from the end of what a handler does at once', async () => {
    const stage = new Stage()
    stage.beginMs = 3
    stage.answer(0, ...of('a', 0, 10))
    await stage.until(50)
    expect(stage.begun.map(([, now]) => now)).toEqual([0, 12])
  })

  it('is kept before a start with an earlier instant too', async () => {
    const stage = new Stage()
    stage.answer(0, ...of('a', 10))
    await stage.until(10)
    stage.answer(10, ...of('a', 5))
    await stage.until(50)
    expect(stage.begun.map(([, now]) => now)).toEqual([10, 14.5])
  })

  it('is that of the limit if the instants are further apart: one late answer delays one start', async () => {
    const stage = new Stage()
    await stage.until(1000)
    stage.answer(0, ...of('a', 0))
    await stage.until(1002)
    stage.answer(1002, ...of('a', 1002, 1012))
    await stage.until(1100)
    expect(stage.begun.map(([, now]) => now)).toEqual([1000, 1009, 1018])
  })

  it.each([
    [100, 10],
    [10, 100],
  ])('is the longer one if the limit was changed between them, from %i ms to %i', async (before, after) => {
    const stage = new Stage()
    await stage.until(1000)
    stage.answer(0, { at: 0, key: 'a', gap: before })
    await stage.until(1002)
    stage.answer(1002, { at: 1002, key: 'a', gap: after })
    await stage.until(1200)
    expect(stage.begun.map(([, now]) => now)).toEqual([1000, 1090])
  })

  it('is remembered for so many buckets, those of the latest starts', async () => {
    const stage = new Stage()
    const slow = (key: string, at: number): Start => ({ at, key, gap: 100 })
    await stage.until(50)
    stage.answer(0, slow('first', 0), slow('second', 0))
    await stage.until(110)
    stage.answer(60, slow('first', 60))
    stage.answer(110, ...Array.from({ length: 9999 }, (_, i) => ({ at: 110, key: String(i) })))
    expect(stage.begun).toHaveLength(10_002)
    await stage.until(111)
    stage.answer(100, slow('first', 100))
    await stage.until(145)
    expect(stage.begun).toHaveLength(10_002)
    stage.answer(130, slow('second', 130))
    expect(stage.begun.at(-1)).toEqual([130, 145])
  })
})

describe('starts that are late', () => {
  it('for a blocked event loop are given back, the others keep their distance', async () => {
    const stage = new Stage()
    stage.stalled = [5, 45]
    stage.answer(0, ...of('a', 10, 20, 30, 40), { at: 21 }, { at: 41 })
    await stage.until(100)
    expect(stage.back).toEqual([10, 20, 21])
    expect(stage.begun).toEqual([
      [30, 45],
      [41, 45],
      [40, 54],
    ])
    expect(stage.hold.count('q')).toBe(0)
  })

  it('since the answer was late are not: the next one may be as late', async () => {
    const stage = new Stage()
    await stage.until(60)
    stage.answer(0, ...of('a', 0, 10), { at: 15 })
    await stage.until(100)
    expect(stage.back).toEqual([])
    expect(stage.begun).toEqual([
      [0, 60],
      [15, 60],
      [10, 69],
    ])
  })

  it('and were not granted ahead are not: their claim would grant the same', async () => {
    const stage = new Stage()
    await stage.until(60)
    stage.answer(0, { at: 0, key: 'a', gap: 100 })
    await stage.until(100)
    stage.answer(100, { at: 100, key: 'a', gap: 100 })
    await stage.until(200)
    expect([stage.back, stage.begun]).toEqual([
      [],
      [
        [0, 60],
        [100, 150],
      ],
    ])
  })
})

describe('starts of a sliding window', () => {
  const units = (at: number, ...each: readonly number[]): Start[] => each.map((n) => ({ at, units: n }))

  /** A claim of `claimedMs` that is answered at `answeredMs`. */
  async function claimed(stage: Stage, claimedMs: number, answeredMs: number, starts: readonly Start[]): Promise<void> {
    await stage.until(claimedMs)
    stage.hold.terms()
    if (answeredMs > claimedMs) await stage.until(answeredMs)
    stage.answer(claimedMs, ...starts)
  }

  it('wait until the period has room, if earlier ones began later than the guard', async () => {
    const stage = new Stage()
    await claimed(stage, 0, 150, units(0, 1, 1, 1, 1))
    await claimed(stage, 1000, 1005, [{ at: 1001 }, ...units(1020, 1, 1, 1, 1)])
    await stage.until(2000)
    expect(stage.begun.map(([, now]) => now)).toEqual([150, 150, 150, 150, 1005, 1150, 1150, 1150, 1150])
    expect([stage.back, stage.clock.next()]).toEqual([[], null])
  })

  it('wait for as many units as they take', async () => {
    const stage = new Stage()
    await claimed(stage, 0, 30, units(0, 1))
    await claimed(stage, 60, 100, units(60, 3))
    await claimed(stage, 1020, 1020, units(1020, 1))
    await claimed(stage, 1080, 1080, units(1080, 3))
    await stage.until(2000)
    expect(stage.begun.map(([, now]) => now)).toEqual([30, 100, 1030, 1100])
  })

  it('do not wait if the earlier ones had half of the guard left', async () => {
    const stage = new Stage()
    await claimed(stage, 0, 10, units(0, 4))
    await claimed(stage, 1020, 1020, units(1020, 4))
    expect(stage.begun.map(([, now]) => now)).toEqual([10, 1020])
  })

  it('do not wait for starts that the period has left, nor for more than the whole window', async () => {
    const stage = new Stage()
    await claimed(stage, 0, 500, units(0, 4))
    await claimed(stage, 1520, 1520, units(1520, 9))
    await claimed(stage, 9000, 9000, units(9000, 9))
    expect(stage.begun.map(([, now]) => now)).toEqual([500, 1520, 9000])
  })

  it('of one store window never wait for each other, though units have come back', async () => {
    const stage = new Stage()
    await claimed(stage, 0, 30, units(0, 4))
    await claimed(stage, 500, 530, units(500, 4))
    await claimed(stage, 1025, 1025, units(1025, 4))
    await claimed(stage, 1400, 1400, units(1400, 4))
    await stage.until(3000)
    // The third waits for the first alone, since its store counts it with the second.
    expect(stage.begun.map(([, now]) => now)).toEqual([30, 530, 1030, 1400])
  })

  it('that wait for room are not given back, however long it takes', async () => {
    const stage = new Stage()
    await claimed(stage, 0, 50, units(0, 1))
    await claimed(stage, 100, 400, units(100, 3))
    stage.hold.terms()
    stage.answer(1100, ...units(1110, 2), ...units(1125, 2))
    await stage.until(2000)
    expect([stage.back, stage.begun.map(([at]) => at)]).toEqual([[], [0, 100, 1110, 1125]])
  })

  it('that another limit keeps beyond their instants have the period to themselves when they begin', async () => {
    const stage = new Stage()
    const both = (at: number): Start => ({ at, key: 'a', gap: 3000, units: 4 })
    stage.hold.terms()
    await stage.until(2000)
    stage.answer(0, both(0))
    await stage.until(3000)
    stage.hold.terms()
    // The first one was late, so the next one of its strict limit keeps its distance until 4700.
    stage.answer(3000, both(3000))
    await claimed(stage, 4200, 4200, units(4200, 4))
    await stage.until(9000)
    expect(stage.begun).toEqual([
      [0, 2000],
      [4200, 4200],
      [3000, 5200],
    ])
  })

  it('of a short window wait by the fine timer', async () => {
    const stage = new Stage()
    await claimed(stage, 0, 30, units(0, 4))
    stage.timers.length = 0
    await claimed(stage, 1020, 1020, units(1020, 4))
    expect(stage.timers).toEqual(['whole'])
    stage.hold.take(() => true)
    stage.timers.length = 0
    const short = { limit: 'w', key: 'short', max: 1, periodUs: 50_000, guardUs: 1000, units: 1 }
    const job = (at: number): GrantedJob =>
      ({ seq: ++seq, queue: 'q', startedUs: at * 1000, uses: [], windows: [short] }) as unknown as GrantedJob
    stage.hold.terms()
    await stage.until(1030)
    stage.hold.add([job(1020)], 1_020_000)
    await stage.until(1071)
    stage.hold.terms()
    stage.hold.add([job(1071)], 1_071_000)
    expect(stage.timers).toEqual(['fine'])
    await stage.until(2000)
    expect(stage.begun.slice(1)).toEqual([
      [1020, 1030],
      [1071, 1080],
    ])
  })

  it('begin one after the other without a drift, if each begin takes long', async () => {
    const stage = new Stage()
    stage.beginMs = 50
    for (let n = 0; n < 5; n++) await claimed(stage, n * 1020, n * 1020, units(n * 1020, 1, 1, 1, 1))
    await stage.until(6000)
    const first = stage.begun.filter((_, i) => i % 4 === 0).map(([, now]) => now)
    expect(first).toEqual([0, 1020, 2040, 3060, 4080])
  })

  it('never begin more than the budget in any period, however late they are', () => {
    const late = fc.array(fc.integer({ min: 0, max: 900 }), { minLength: 1, maxLength: 40 })
    const property = fc.asyncProperty(late, fc.integer({ min: 1, max: 4 }), async (lateness, units) => {
      const stage = new Stage()
      // As its store would grant them: the next ones a window with its guard after the first of the last four units.
      const instants: number[] = []
      for (const [i, lateMs] of lateness.entries()) {
        const before = instants[i - Math.floor(4 / units)] ?? -Infinity
        const at = Math.max(stage.nowMs, before + 1020)
        instants.push(at)
        await claimed(stage, at, at + lateMs, [{ at, units }])
      }
      await stage.until(1e6)
      const begun = stage.begun.map(([, now]) => now)
      expect(begun).toHaveLength(lateness.length)
      for (const from of begun) {
        const within = begun.filter((at) => at >= from && at < from + 1000).length
        expect(within * units).toBeLessThanOrEqual(4)
      }
    })
    return fc.assert(property)
  })
})

describe('a step of the store’s clock', () => {
  it('backwards gives held starts back, which would wait for the same time to come again', async () => {
    const stage = new Stage()
    stage.answer(0, ...of('a', 10), { at: 20 })
    await stage.until(5)
    stage.stepMs = -3_600_000
    await stage.until(100)
    expect(stage.back).toEqual([10, 20])
    expect([stage.begun, stage.clock.next()]).toEqual([[], null])
  })

  it('backwards keeps no later start waiting', async () => {
    const stage = new Stage()
    stage.answer(0, { at: 10 }, { at: 20 })
    await stage.until(5)
    stage.stepMs = -1000
    stage.answer(-995, { at: -985 }, { at: -935 })
    await stage.until(39)
    expect([stage.begun, stage.back]).toEqual([[[-985, 15]], []])
    await stage.until(100)
    expect([stage.begun, stage.back]).toEqual([
      [
        [-985, 15],
        [-935, 65],
      ],
      [10, 20],
    ])
  })

  it('backwards by less than a late answer makes them no earlier', async () => {
    const stage = new Stage()
    stage.answer(0, { at: 10 })
    await stage.until(5)
    stage.stepMs = -15
    await stage.until(100)
    expect([stage.back, stage.begun]).toEqual([[], [[10, 25]]])
  })

  it('forwards gives them back too', async () => {
    const stage = new Stage()
    stage.answer(0, { at: 10 })
    stage.stepMs = 3_600_000
    await stage.until(100)
    expect([stage.back, stage.begun]).toEqual([[10], []])
  })
})

describe('long claims', () => {
  /** A claim that takes so long. @returns how far ahead it looks, in ms */
  async function claim(stage: Stage, ms: number, ...starts: readonly Start[]): Promise<number> {
    const { aheadUs = 0 } = stage.hold.terms()
    const claimedMs = stage.nowMs
    await stage.until(claimedMs + ms)
    stage.answer(claimedMs, ...starts)
    return aheadUs / 1000
  }

  it('are followed by claims that look as far ahead as two of them take, and at most four times as far as told', async () => {
    const stage = new Stage(20)
    const looked: number[] = []
    for (const ms of [5, 15, 39, 300, 1]) looked.push(await claim(stage, ms))
    expect(looked).toEqual([20, 20, 30, 78, 80])
    expect([await claim(stage, 1), await claim(new Stage(0), 100), await claim(new Stage(600), 1)]).toEqual([
      20, 0, 600,
    ])
    const far = new Stage(600)
    await claim(far, 900)
    expect(await claim(far, 1)).toBe(1000)
  })

  it('let no start of a window begin later than said', async () => {
    const stage = new Stage(20)
    await claim(stage, 30)
    stage.stalled = [65, 90]
    await claim(stage, 30, { at: 65, units: 1 })
    await stage.until(200)
    expect([stage.back, stage.begun]).toEqual([[65], []])
  })

  it('grant strict starts that may begin later by as much as they looked ahead', async () => {
    const stage = new Stage(20)
    await claim(stage, 30)
    await claim(stage, 30, ...of('a', 35, 45, 55, 65))
    await stage.until(200)
    expect([stage.back, stage.begun.map(([, now]) => now)]).toEqual([[], [60, 69, 78, 87]])
    await claim(stage, 10, ...of('a', 200))
    await claim(stage, 10)
    stage.stalled = [224, 250]
    await claim(stage, 1, ...of('a', 224))
    await stage.until(300)
    expect(stage.back).toEqual([224])
  })
})

describe('starts that came too late', () => {
  it.each([
    ['where claims keep starts from beginning', true, [20, 20.039, 25]],
    ['but not where a server decides on them', false, [80, 80, 80]],
  ])('let the next claims look no further than told, %s, and then further with each', async (_, inThread, expected) => {
    const stage = new Stage(20, inThread)
    const claim = async (at: number, ms: number, ...starts: readonly Start[]): Promise<number> => {
      await stage.until(at)
      const { aheadUs = 0 } = stage.hold.terms()
      await stage.until(at + ms)
      stage.answer(at, ...starts)
      return aheadUs / 1000
    }
    await claim(0, 100)
    stage.stalled = [210, 400]
    expect(await claim(100, 100, ...of('a', 210, 220))).toBe(80)
    await stage.until(400)
    expect(stage.back.length).toBe(2)
    const looked = [await claim(500, 100)]
    for (let n = 0; n < 128; n++) looked.push(await claim(600 + 100 * n, 100))
    expect([looked[0], looked[1], looked[128]]).toEqual(expected)
  })
})

describe('the fine timer', () => {
  it('waits for starts less than 5 ms apart, and for no others', async () => {
    const stage = new Stage()
    stage.answer(0, ...of('a', 0))
    stage.answer(0, ...of('a', 4, 8, 13))
    stage.timers.length = 0
    await stage.until(5)
    expect(stage.begun.map(([, now]) => now)).toEqual([0, 4])
    expect(stage.timers).toEqual(['fine'])
    await stage.until(8)
    expect(stage.timers).toEqual(['fine', 'whole'])
    stage.answer(8, ...of('a', 17))
    await stage.until(13)
    expect(stage.timers.at(-1)).toBe('fine')
    await stage.until(50)
    expect(stage.begun.map(([, now]) => now)).toEqual([0, 4, 8, 13, 17])
  })

  it('waits for a start that a late one keeps back, unless they are far apart', async () => {
    const kept = async (gap: number): Promise<string | undefined> => {
      const stage = new Stage()
      stage.stalled = [gap, gap + 5]
      stage.answer(0, ...[0, gap, 2 * gap].map((at) => ({ at, key: 'a', gap })))
      await stage.until(gap + 5)
      const timer = stage.timers.at(-1)
      await stage.until(3 * gap)
      expect(stage.begun.map(([, now]) => now)).toEqual([0, gap + 5, gap + 5 + 0.9 * gap])
      return timer
    }
    expect([await kept(10), await kept(19), await kept(20)]).toEqual(['fine', 'fine', 'whole'])
  })

  it('is not needed without one: a manual clock is as exact', async () => {
    const clock = createManualClock()
    const begun: number[] = []
    const hold = new Hold({
      clock,
      store: { nowUs: () => clock.monotonicUs() },
      aheadUs: 20_000,
      budgets: null,
      starter: { begin: (job) => begun.push(job.startedUs), giveBack: async () => undefined, claiming: () => null },
    })
    hold.add(of('a', 0).map(granted), 0)
    hold.add(of('a', 1, 2).map(granted), 0)
    await clock.advance('5ms')
    expect(begun).toEqual([0, 1000, 2000])
  })
})
