import * as fc from '../../properties.ts'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { StoreBackend } from './backend.ts'
import { eachHarness, StoreHarness } from './store-harness.ts'

/** Who goes first where not all can: shares, fair keys. */
export function fairness(backend: StoreBackend): void {
  describe('shares', () => shares(backend))
  describe('fair keys', () => fairKeys(backend))
  describe('headroom', () => headroom(backend))
  describe('ageing', () => ageing(backend))
}

/** The lanes of jobs that are named by their lane and a number, as `a12`. */
function lanesOf(names: readonly string[]): string {
  return names.map((name) => name.replace(/\d+$/, '')).join('')
}

function shares(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('a lane with a share of three has three starts where others have one', async () => {
    const w = harness()
    await w.define({ r: { rate: 1000, per: '1s' } })
    await w.add('a', { limits: ['r:a'], share: 3 }, 9)
    await w.add('b', { limits: ['r:b'] }, 9)
    await w.add('c', { limits: ['r:c'] }, 9)
    expect(lanesOf(await w.start(10))).toBe('aaabcaaabc')
  })

  test('a turn goes on in the next claim, and in another process', async () => {
    const w = harness()
    await w.define({ r: { rate: 1000, per: '1s' } })
    await w.add('a', { limits: ['r:a'], share: 3 }, 9)
    await w.add('b', { limits: ['r:b'] }, 9)
    let order = ''
    for (let i = 0; i < 6; i++) order += lanesOf(await w.start(1))
    expect(order).toBe('aaabaa')
    if (!backend.reopen) return
    const other = await w.reopen(backend)
    w.at(5)
    for (let i = 0; i < 4; i++) order += lanesOf(await other.start(1))
    expect(order).toBe('aaabaaabaa')
    await other.store.close()
  })

  test('shares divide a budget that several lanes need, too', async () => {
    const w = harness()
    await w.define({ g: { rate: 1, per: '1s', burst: 1 }, r: { rate: 1000, per: '1s' } })
    await w.add('a', { limits: ['g', 'r:a'], share: 3 }, 12)
    await w.add('b', { limits: ['g', 'r:b'] }, 12)
    let order = ''
    for (let s = 0; s < 12; s++) {
      w.at(s * 1000)
      order += lanesOf(await w.start())
    }
    expect(order).toBe('aaabaaabaaab')
  })

  test('the share of a lane is that of the job that came last', async () => {
    const w = harness()
    await w.define({ r: { rate: 1000, per: '1s' } })
    await w.add('a', { limits: ['r:a'], share: 3 }, 8)
    await w.add('b', { limits: ['r:b'] }, 8)
    await w.add('last', { limits: ['r:a'], share: 1 })
    expect(await w.explain('a1')).toMatchObject({ share: 1 })
    expect(lanesOf(await w.start(6))).toBe('ababab')
  })

  test('a lane that its own budget holds back saves up no turns', async () => {
    const w = harness()
    await w.define({ own: { rate: 2, per: '100s' }, wide: { rate: 1000, per: '1s' } })
    await w.add('a', { limits: ['own'], share: 4 }, 20)
    await w.add('b', { limits: ['wide'] }, 40)
    expect(lanesOf(await w.start(12))).toBe('aabbbbbbbbbb')
    await w.store.override({
      limit: 'own',
      key: null,
      kind: 'override',
      change: { rate: 1000 },
      untilUs: null,
      by: null,
      reason: null,
    })
    w.at(60_000)
    // The rest of its turn, then no more than its share.
    expect(lanesOf(await w.start(12))).toBe('aabaaaabaaaa')
  })

  test('a newcomer of any share waits behind those that wait', async () => {
    const w = harness()
    await w.define({ r: { rate: 1000, per: '1s' } })
    for (const lane of ['a', 'b', 'c']) await w.add(lane, { limits: [`r:${lane}`] }, 5)
    expect(lanesOf(await w.start(1))).toBe('a')
    w.at(1)
    await w.add('n', { limits: ['r:n'], share: 100 }, 200)
    expect(lanesOf(await w.start(4))).toBe('bcan')
  })

  test('a lane has no second turn before others that many refused lanes keep from being read', async () => {
    const w = harness()
    await w.define({ r: { rate: 1000, per: '1s' }, closed: { rate: 1, per: '1d', startEmpty: true } })
    await w.add('deep', { limits: ['r:deep'] }, 100)
    for (let n = 0; n < 300; n++) await w.add(`x${n}-`, { limits: ['closed', `r:x${n}`] })
    const others = Array.from({ length: 30 }, (_, n) => `o${n}`)
    for (const lane of others) await w.add(lane, { limits: [`r:${lane}`] })
    const starts: string[] = []
    for (let n = 0; n < 40 && starts.length < 32; n++) starts.push(...(await w.start(32 - starts.length)))
    // The closed budget begins with one start.
    expect(starts).toEqual(['deep1', 'x0-', ...others])
  })

  test('no job starts before a more urgent one that many refused lanes keep from being read', async () => {
    const w = harness()
    await w.define({ r: { rate: 1, per: '1s' }, wide: { rate: 1000, per: '1s' }, closed: { rate: 1, per: '1d' } })
    await w.add('waits', { limits: ['r'] }, 2)
    expect(await w.start(1)).toEqual(['waits1'])
    await w.pause('closed')
    expect(await w.start(1)).toEqual([])
    w.at(1000)
    await w.add('plain')
    for (let n = 0; n < 300; n++) await w.add(`x${n}-`, { limits: ['closed', `wide:x${n}`], priority: 2 })
    await w.add('urgent', { limits: ['wide:u'], priority: 1 }, 2)
    const starts: string[] = []
    for (let n = 0; n < 20 && starts.length < 4; n++) starts.push(...(await w.start(1)))
    expect(starts).toEqual(['urgent1', 'urgent2', expect.any(String), expect.any(String)])
    expect(starts.slice(2).sort()).toEqual(['plain', 'waits2'])
  })

  test('no stream of new lanes with large shares starves one that waits', async () => {
    const w = harness()
    await w.define({ r: { rate: 1000, per: '1s' } })
    await w.add('old', { limits: ['r:old'] }, 2)
    const starts: string[] = []
    for (let i = 0; i < 60; i++) {
      w.at(i)
      for (let n = 0; n < 3; n++) await w.add(`n${i}x${n}x`, { limits: [`r:${i}-${n}`], share: 10 }, 2)
      starts.push(...(await w.start(1)))
    }
    expect(starts.indexOf('old1')).toBe(0)
    // Behind the three that waited when it was served, with as many starts as they had jobs.
    expect(starts.indexOf('old2')).toBe(7)
  })

  test('starts divided by shares never lie more than one apart while lanes have work', async () => {
    const lanes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 2, maxLength: 4 })
    const claims = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 10, maxLength: 25 })
    await fc.assert(
      fc.asyncProperty(lanes, claims, fc.boolean(), async (given, slots, shared) => {
        const w = await StoreHarness.open(backend)
        try {
          await w.define({ g: { rate: 5, per: '1s' }, r: { rate: 1000, per: '1s' } })
          for (const [i, share] of given.entries())
            await w.add(`l${i}x`, { limits: shared ? ['g', `r:${i}`] : [`r:${i}`], share }, 150)
          const served = given.map(() => 0)
          const history: number[][] = [[...served]]
          for (const [i, count] of slots.entries()) {
            w.at(i * 700)
            for (const name of await w.start(count)) {
              served[Number(/^l(\d+)x/.exec(name)![1])]!++
              history.push([...served])
            }
          }
          expect(Math.max(...served)).toBeLessThan(150)
          for (const [i, a] of given.entries())
            for (const [k, b] of given.entries()) {
              const leads = history.map((at) => at[i]! / a - at[k]! / b)
              expect(Math.max(...leads) - Math.min(...leads)).toBeLessThanOrEqual(1 + 1e-9)
            }
        } finally {
          await w.store.close()
        }
      }),
      { seed: 7, numRuns: Math.ceil(25 * (backend.part ?? 1)) },
    )
  })

  test('positions and starts to come know of shares', async () => {
    const w = harness()
    await w.define({ g: { rate: 1, per: '1s', burst: 1 } })
    await w.add('a', { limits: ['g'], fairKey: 'a', share: 3 }, 9)
    await w.add('b', { limits: ['g'], fairKey: 'b' }, 9)
    expect(await w.start()).toEqual(['a1'])
    const told = new Map<string, number | null>()
    for (const name of ['a2', 'a5', 'a9', 'b1', 'b2', 'b9']) {
      const { expectedStartUs, exact, linePosition } = await w.explain(name)
      expect(exact).toBe(true)
      told.set(name, w.ms(expectedStartUs))
      expect(linePosition).toBe(w.ms(expectedStartUs)! / 1000)
    }
    const seen = new Map<string, number>()
    for (let s = 1; s <= 20; s++) {
      w.at(s * 1000)
      for (const name of await w.start()) if (told.has(name)) seen.set(name, s * 1000)
    }
    expect(Object.fromEntries(seen)).toEqual(Object.fromEntries(told))
  })
}

function fairKeys(backend: StoreBackend): void {
  const harness = eachHarness(backend)

  test('jobs without limits take turns by their fair keys', async () => {
    const w = harness()
    await w.add('a', { fairKey: 'a' }, 5)
    await w.add('b', { fairKey: 'b' }, 2)
    await w.add('c', { fairKey: 'c', share: 2 }, 3)
    expect(lanesOf(await w.start(100))).toBe('abccabcaaa')
  })

  test('beside limits the fair key splits their lanes', async () => {
    const w = harness()
    await w.define({ g: { rate: 1, per: '1s', burst: 4 } })
    await w.add('a', { limits: ['g'], fairKey: 'a' }, 5)
    await w.add('b', { limits: ['g'], fairKey: 'b' }, 5)
    await w.add('n', { limits: ['g'] }, 5)
    expect(await w.start()).toEqual(['a1', 'b1', 'n1', 'a2'])
    w.at(2000)
    expect(await w.start()).toEqual(['b2', 'n2'])
  })

  test('a deep backlog of one key delays no other', async () => {
    const w = harness()
    const jobs = Array.from({ length: 20_000 }, (_, i) => w.job(`a${i}`, { fairKey: 'a' }))
    await w.store.enqueue(jobs)
    await w.start(1)
    await w.add('b', { fairKey: 'b' }, 2)
    const { jobs: started, looks } = await w.claim({ slots: 4 })
    expect(
      lanesOf(started.map(({ task }) => task))
        .split('')
        .toSorted()
        .join(''),
    ).toBe('aabb')
    expect(looks).toBeLessThanOrEqual(6)
  })

  test('a fair key is no limit’s key, and not another queue’s', async () => {
    const w = harness()
    await w.define({ a: { rate: 1, per: '1s' } })
    await w.add('keyed', { limits: ['a:b'] }, 3)
    await w.add('fair', { fairKey: 'a' }, 1)
    await w.add('other', { fairKey: 'a', queue: 'p' }, 1)
    expect(await w.start()).toEqual(['keyed1', 'fair1'])
    expect(await w.start({ queue: 'p' })).toEqual(['other1'])
  })

  test('an explanation names it', async () => {
    const w = harness()
    await w.add('a', { fairKey: 'acme', share: 4 }, 3)
    await w.add('plain')
    expect(await w.explain('a2')).toMatchObject({ fairKey: 'acme', share: 4, position: 2, waitsOn: null, uses: [] })
    expect(await w.explain('plain')).toMatchObject({ fairKey: null, share: 1 })
  })

  test('a retry comes back to its lane, and lanes go when they are empty', async () => {
    const w = harness()
    await w.add('a', { fairKey: 'a' }, 2)
    await w.add('b', { fairKey: 'b' }, 1)
    expect(await w.start(1)).toEqual(['a1'])
    await w.retry('a1')
    expect(await w.explain('a1')).toMatchObject({ fairKey: 'a', position: 1 })
    expect(await w.start()).toEqual(['b1', 'a1', 'a2'])
    await w.complete('a1', 'a2', 'b1')
    w.at(1_000_000)
    // Three jobs, two lanes.
    expect(await w.store.prune(100)).toBe(5)
  })

  test('an update moves a job to the lane of its new key', async () => {
    const w = harness()
    await w.offer('u', { fairKey: 'a', unique: { key: 'k' } })
    await w.offer('u', { fairKey: 'b', unique: { key: 'k', onConflict: 'update' } })
    expect(await w.explain('u')).toMatchObject({ fairKey: 'b', position: 1 })
    expect(await w.start()).toEqual(['u'])
  })
}

function headroom(backend: StoreBackend): void {
  const harness = eachHarness(backend)
  const kept = { units: 2, priority: 10 }

  test('the last units are for the urgent, and the others start at the very instant at which enough remain', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '5s', headroom: kept } })
    await w.add('low', { limits: ['r'] }, 6)
    expect(await w.start()).toEqual(['low1', 'low2', 'low3'])
    expect(await w.bucket('r')).toMatchObject({ available: 2, waiting: 3, headroom: kept })
    expect(await w.wake()).toBe(1000)
    await w.add('urgent', { limits: ['r'], priority: 10 }, 3)
    expect(await w.start()).toEqual(['urgent1', 'urgent2'])
    expect(await w.wake()).toBe(1000)
    w.at(1000)
    expect(await w.start()).toEqual(['urgent3'])
    expect(await w.wake()).toBe(4000)
    w.at(3999.999)
    expect(await w.start()).toEqual([])
    w.at(4000)
    expect(await w.start()).toEqual(['low4'])
  })

  test('permits are kept likewise, and an urgent job takes one while others wait', async () => {
    const w = harness()
    await w.define({ c: { concurrency: 3, headroom: kept } })
    await w.add('low', { limits: ['c'] }, 3)
    expect(await w.start()).toEqual(['low1'])
    await w.add('urgent', { limits: ['c'], priority: 10 }, 3)
    expect(await w.start()).toEqual(['urgent1', 'urgent2'])
    await w.complete('urgent1')
    expect(await w.start()).toEqual(['urgent3'])
    await w.complete('urgent3')
    expect(await w.wake()).toBeNull()
    await w.complete('urgent2')
    expect(await w.wake()).toBeNull()
    await w.complete('low1')
    expect(await w.start()).toEqual(['low2'])
  })

  test('one lane of low jobs holds back no urgent one of another lane or queue', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '5s', headroom: kept }, own: { rate: 100, per: '1s' } })
    await w.store.join(['p'], 1e12)
    await w.add('low', { limits: ['r'] }, 5)
    expect(await w.start()).toEqual(['low1', 'low2', 'low3'])
    await w.add('x', { limits: ['r', 'own:x'], priority: 10 })
    await w.add('y', { limits: ['r'], priority: 11, queue: 'p' })
    expect(await w.start()).toEqual(['x'])
    expect(await w.start({ queue: 'p' })).toEqual(['y'])
  })

  test('an explanation tells what is kept, and when the job starts all the same', async () => {
    const w = harness()
    await w.define({ r: { window: 'sliding', max: 5, per: '10s', guard: 0, headroom: kept } })
    await w.add('low', { limits: ['r'] }, 9)
    expect(await w.start()).toEqual(['low1', 'low2', 'low3'])
    const { waitsOn, headroom: told, expectedStartUs, exact } = await w.explain('low7')
    expect(waitsOn).toEqual({ limit: 'r', key: '' })
    expect(told).toEqual(kept)
    expect(exact).toBe(true)
    expect(w.ms(expectedStartUs)).toBe(20_000)
    w.at(10_000)
    expect(await w.start()).toEqual(['low4', 'low5', 'low6'])
    w.at(20_000)
    expect(await w.start()).toEqual(['low7', 'low8', 'low9'])
  })

  test('with urgent jobs ahead a window tells no more than a lower bound', async () => {
    const w = harness()
    await w.define({ r: { window: 'fixed', max: 5, per: '10s', headroom: kept } })
    await w.add('urgent', { limits: ['r'], priority: 10 }, 14)
    await w.add('low', { limits: ['r'] }, 1)
    const from = (await w.start()).length
    expect(from).toBe(5)
    const { expectedStartUs, exact } = await w.explain('low1')
    expect(exact).toBe(false)
    let startMs: number | null = null
    for (let i = 0; startMs === null; i++) {
      const { nextWakeUs } = await w.claim({ slots: 0 })
      w.at(w.ms(nextWakeUs) ?? i * 10_000)
      if ((await w.start()).includes('low1')) startMs = w.ms(w.store.nowUs())
    }
    expect(w.ms(expectedStartUs)).toBeLessThanOrEqual(startMs)
  })

  test('dropped, late or put off is what the reserve keeps out, and nothing else', async () => {
    const w = harness()
    await w.define({
      drop: { rate: 3, per: '30s', headroom: kept, onLimit: 'drop' },
      late: { rate: 3, per: '30s', headroom: kept, maxWait: '5s' },
      later: { rate: 3, per: '30s', headroom: kept, onLimit: 'reschedule' },
    })
    for (const limit of ['drop', 'late', 'later']) {
      await w.add(`${limit}-low`, { limits: [limit] }, 2)
      await w.add(`${limit}-urgent`, { limits: [limit], priority: 10 }, 1)
    }
    const { jobs, rejected } = await w.claim()
    expect(jobs.map(({ task }) => task).toSorted()).toEqual(
      // Each urgent one goes first and uses a unit; two remain, so that no low one may start.
      ['drop-urgent1', 'late-urgent1', 'later-urgent1'],
    )
    expect(rejected.map(({ task, reason }) => `${task} ${reason}`).toSorted()).toEqual([
      'drop-low1 dropped',
      'drop-low2 dropped',
      'late-low1 late',
      'late-low2 late',
    ])
    expect(await w.states('later-low1', 'later-low2')).toEqual(['scheduled', 'scheduled'])
    expect(w.ms(rejected.find(({ task }) => task === 'late-low1')!.expectedStartUs)).toBe(10_000)
  })

  test('a queue’s own limit keeps its last units for the urgent, too', async () => {
    const w = harness()
    await w.define({ own: { rate: 5, per: '5s', headroom: kept } })
    await w.add('low', {}, 5)
    await w.add('fair', { fairKey: 'a' }, 5)
    await w.declare('q', ['own'])
    expect(await w.start()).toHaveLength(3)
    expect(await w.wake()).toBe(1000)
    await w.add('urgent', { priority: 10 })
    await w.add('fast', { priority: 12, fairKey: 'b' })
    expect(await w.start()).toEqual(['fast', 'urgent'])
    expect(await w.start()).toEqual([])
  })

  test('a headroom that is defined, changed or lifted holds at once for what waits', async () => {
    const w = harness()
    await w.define({ r: { rate: 5, per: '50s' } })
    await w.add('low', { limits: ['r'] }, 9)
    expect(await w.start(2)).toEqual(['low1', 'low2'])
    await w.define({ r: { rate: 5, per: '50s', headroom: { units: 3, priority: 10 } } })
    expect(await w.start()).toEqual([])
    await w.override('r', { headroom: kept })
    expect(await w.start()).toEqual(['low3'])
    await w.override('r', { headroom: null })
    expect(await w.start()).toEqual(['low4', 'low5'])
    await w.clear('r')
    expect(await w.wake()).toBe(40_000)
  })
}

function ageing(backend: StoreBackend): void {
  const aged = async (ageingUs: number | null = 1_000_000): Promise<StoreHarness> => {
    const w = await StoreHarness.open(backend, undefined, { ageingUs })
    onTestFinished(() => w.store.close())
    return w
  }

  test('a job that has waited long enough goes before a more urgent newcomer, and shows the priority that it was given', async () => {
    const w = await aged()
    await w.add('low', { priority: 1 })
    w.at(2500)
    await w.add('even', { priority: 3 })
    await w.add('more', { priority: 4 })
    // Two steps of priority gained: as urgent as `even`, and older.
    expect(await w.start(2)).toEqual(['more', 'low'])
    expect(await w.get('even')).toMatchObject({ priority: 3 })
    w.at(9000)
    await w.add('late', { priority: 8 })
    const { jobs } = await w.claim()
    expect(jobs.map(({ task, priority }) => [task, priority])).toEqual([
      ['even', 3],
      ['late', 8],
    ])
  })

  test('no stream of urgent jobs starves another, in its lane, in its queue and in a budget’s line', async () => {
    for (const [own, others] of [
      [{ limits: ['g'] }, { limits: ['g'] }],
      [{}, { fairKey: 'x' }],
      [{ limits: ['g', 'r:a'] }, { limits: ['g', 'r:b'] }],
    ]) {
      const w = await aged()
      await w.define({ g: { rate: 1, per: '1s', burst: 1 }, r: { rate: 100, per: '1s' } })
      await w.add('low', { ...own, priority: -5 })
      let startedMs: number | null = null
      for (let s = 0; s < 30; s++) {
        w.at(s * 1000)
        await w.add(`urgent${s}x`, { ...others, priority: 5 }, 2)
        if ((await w.start(1)).includes('low')) startedMs ??= s * 1000
      }
      // Ten steps apart: behind those that came in its first ten seconds, twenty of them at one a second.
      expect(startedMs).toBe(20_000)
    }
  })

  test('jobs of the same interval take turns, and waiting rewrites nothing', async () => {
    const w = await aged(60_000_000)
    await w.define({ r: { rate: 100, per: '1s' } })
    for (const lane of ['a', 'b']) await w.add(lane, { limits: [`r:${lane}`] }, 2)
    w.at(30_000)
    expect(await w.start()).toEqual(['a1', 'b1', 'a2', 'b2'])
  })

  test('a scheduled job ages from its time on, a retry from its arrival', async () => {
    const w = await aged()
    await w.add('planned', { priority: 1, runAtMs: w.clock.now() + 10_000 })
    await w.add('tried', { priority: 1 })
    expect(await w.start(1)).toEqual(['tried'])
    w.at(10_000)
    await w.retry('tried')
    await w.add('fresh', { priority: 2 })
    expect(await w.start()).toEqual(['tried', 'fresh', 'planned'])
  })

  test('an update keeps the age', async () => {
    const w = await aged()
    await w.offer('u', { unique: { key: 'k' }, priority: 1 })
    w.at(5000)
    await w.add('other', { priority: 5 })
    await w.offer('u', { unique: { key: 'k', onConflict: 'update' }, priority: 2 })
    expect(await w.get('u')).toMatchObject({ priority: 2 })
    expect(await w.start()).toEqual(['u', 'other'])
  })

  test('lends no right to a headroom, and no aged job keeps an urgent one from it', async () => {
    const w = await aged()
    const kept = { units: 2, priority: 10 }
    await w.define({ r: { rate: 4, per: '400s', headroom: kept }, own: { rate: 100, per: '1s' } })
    await w.add('low', { limits: ['r'], priority: 9 }, 4)
    await w.add('side', { limits: ['own', 'r'], priority: 9 })
    expect(await w.start()).toHaveLength(2)
    w.at(50_000)
    expect(await w.start()).toEqual([])
    await w.add('urgent', { limits: ['r'], priority: 10 })
    await w.add('aside', { limits: ['own', 'r'], priority: 10 })
    expect(await w.start()).toEqual(['urgent', 'aside'])
    expect(await w.wake()).toBe(300_000)
  })

  test('the pace belongs to the store: who says nothing leaves it, who says another changes it for what comes', async () => {
    if (!backend.reopen) return
    const w = await aged()
    await w.add('old', { priority: 1 })
    const quiet = await w.reopen(backend)
    w.at(3000)
    await quiet.add('young', { priority: 3 })
    const off = await w.reopen(backend, { ageingUs: null })
    w.at(60_000)
    // Three steps are counted for ever, and no more.
    await w.add('equal', { priority: 4 })
    await w.add('above', { priority: 5 })
    expect(await w.start()).toEqual(['above', 'old', 'equal', 'young'])
    await quiet.store.close()
    await off.store.close()
  })

  test('positions and starts to come are those of the aged', async () => {
    const w = await aged()
    await w.define({ g: { rate: 1, per: '1s', burst: 1 } })
    await w.add('first', { limits: ['g'] }, 2)
    await w.start()
    w.at(500)
    await w.add('high', { limits: ['g'], priority: 1 })
    w.at(900)
    await w.add('low', { limits: ['g'], fairKey: 'f' })
    for (const [name, place] of [
      ['high', 1],
      ['low', 2],
      ['first2', 3],
    ] as const) {
      const { linePosition, expectedStartUs } = await w.explain(name)
      expect(linePosition).toBe(place)
      expect(w.ms(expectedStartUs)).toBe(place * 1000)
    }
  })
}
