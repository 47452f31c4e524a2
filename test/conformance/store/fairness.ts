import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { StoreHarness } from './harness.ts'
import { eachWorld, World } from './world.ts'

/** Who goes first where not all can: shares, fair keys. */
export function fairness(harness: StoreHarness): void {
  describe('shares', () => shares(harness))
  describe('fair keys', () => fairKeys(harness))
}

/** The lanes of jobs that are named by their lane and a number, as `a12`. */
function lanesOf(names: readonly string[]): string {
  return names.map((name) => name.replace(/\d+$/, '')).join('')
}

function shares(harness: StoreHarness): void {
  const world = eachWorld(harness)

  test('a lane with a share of three has three starts where others have one', async () => {
    const w = world()
    await w.define({ r: { rate: 1000, per: '1s' } })
    await w.add('a', { limits: ['r:a'], share: 3 }, 9)
    await w.add('b', { limits: ['r:b'] }, 9)
    await w.add('c', { limits: ['r:c'] }, 9)
    expect(lanesOf(await w.start(10))).toBe('aaabcaaabc')
  })

  test('a turn goes on in the next claim, and in another process', async () => {
    const w = world()
    await w.define({ r: { rate: 1000, per: '1s' } })
    await w.add('a', { limits: ['r:a'], share: 3 }, 9)
    await w.add('b', { limits: ['r:b'] }, 9)
    let order = ''
    for (let i = 0; i < 6; i++) order += lanesOf(await w.start(1))
    expect(order).toBe('aaabaa')
    if (!harness.reopen) return
    const other = await w.reopen(harness)
    w.at(5)
    for (let i = 0; i < 4; i++) order += lanesOf(await other.start(1))
    expect(order).toBe('aaabaaabaa')
    await other.store.close()
  })

  test('shares divide a budget that several lanes need, too', async () => {
    const w = world()
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
    const w = world()
    await w.define({ r: { rate: 1000, per: '1s' } })
    await w.add('a', { limits: ['r:a'], share: 3 }, 8)
    await w.add('b', { limits: ['r:b'] }, 8)
    await w.add('last', { limits: ['r:a'], share: 1 })
    expect(await w.explain('a1')).toMatchObject({ share: 1 })
    expect(lanesOf(await w.start(6))).toBe('ababab')
  })

  test('a lane that its own budget holds back saves up no turns', async () => {
    const w = world()
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
    // What was left of its turn, then no more than its share.
    expect(lanesOf(await w.start(12))).toBe('aabaaaabaaaa')
  })

  test('a newcomer waits behind those that wait, whatever its share', async () => {
    const w = world()
    await w.define({ r: { rate: 1000, per: '1s' } })
    for (const lane of ['a', 'b', 'c']) await w.add(lane, { limits: [`r:${lane}`] }, 5)
    expect(lanesOf(await w.start(1))).toBe('a')
    w.at(1)
    await w.add('n', { limits: ['r:n'], share: 100 }, 200)
    expect(lanesOf(await w.start(4))).toBe('bcan')
  })

  test('no stream of new lanes with large shares starves one that waits', async () => {
    const w = world()
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
        const w = await World.open(harness)
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
      { seed: 7, numRuns: 25 },
    )
  })

  test('positions and starts to come know of shares', async () => {
    const w = world()
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

function fairKeys(harness: StoreHarness): void {
  const world = eachWorld(harness)

  test('jobs without limits take turns by their fair keys', async () => {
    const w = world()
    await w.add('a', { fairKey: 'a' }, 5)
    await w.add('b', { fairKey: 'b' }, 2)
    await w.add('c', { fairKey: 'c', share: 2 }, 3)
    expect(lanesOf(await w.start(100))).toBe('abccabcaaa')
  })

  test('beside limits the fair key splits their lanes', async () => {
    const w = world()
    await w.define({ g: { rate: 1, per: '1s', burst: 4 } })
    await w.add('a', { limits: ['g'], fairKey: 'a' }, 5)
    await w.add('b', { limits: ['g'], fairKey: 'b' }, 5)
    await w.add('n', { limits: ['g'] }, 5)
    expect(await w.start()).toEqual(['a1', 'b1', 'n1', 'a2'])
    w.at(2000)
    expect(await w.start()).toEqual(['b2', 'n2'])
  })

  test('a deep backlog of one key delays no other', async () => {
    const w = world()
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
    const w = world()
    await w.define({ a: { rate: 1, per: '1s' } })
    await w.add('keyed', { limits: ['a:b'] }, 3)
    await w.add('fair', { fairKey: 'a' }, 1)
    await w.add('other', { fairKey: 'a', queue: 'p' }, 1)
    expect(await w.start()).toEqual(['keyed1', 'fair1'])
    expect(await w.start({ queue: 'p' })).toEqual(['other1'])
  })

  test('an explanation names it', async () => {
    const w = world()
    await w.add('a', { fairKey: 'acme', share: 4 }, 3)
    await w.add('plain')
    expect(await w.explain('a2')).toMatchObject({ fairKey: 'acme', share: 4, position: 2, waitsOn: null, uses: [] })
    expect(await w.explain('plain')).toMatchObject({ fairKey: null, share: 1 })
  })

  test('a retry comes back to its lane, and lanes go when they are empty', async () => {
    const w = world()
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
    const w = world()
    await w.offer('u', { fairKey: 'a', unique: { key: 'k' } })
    await w.offer('u', { fairKey: 'b', unique: { key: 'k', onConflict: 'update' } })
    expect(await w.explain('u')).toMatchObject({ fairKey: 'b', position: 1 })
    expect(await w.start()).toEqual(['u'])
  })
}
