import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { startsBefore, unitsInTurn, type WaitingUnits } from '../../src/policy/admission/wait-order.ts'
import { SEED } from './histories.ts'

interface Lane {
  readonly id: number
  readonly turn: number
  readonly taken: number
  readonly share: number
  readonly jobs: readonly WaitingUnits[]
}

/** Lanes whose jobs stand by priority, then by sequence, as stored. */
const lanes: fc.Arbitrary<Lane[]> = fc
  .array(
    fc.record({
      share: fc.integer({ min: 1, max: 3 }),
      taken: fc.nat({ max: 2 }),
      priorities: fc.array(fc.integer({ min: -2, max: 2 }), { minLength: 1, maxLength: 8 }),
    }),
    { minLength: 1, maxLength: 5 },
  )
  .map((drafts) => {
    let seq = 0
    return drafts.map(({ share, taken, priorities }, id) => ({
      id,
      turn: id,
      share,
      taken,
      jobs: priorities
        .map((priority) => ({ priority, seq: ++seq, units: seq }))
        .sort((a, b) => b.priority - a.priority || a.seq - b.seq),
    }))
  })

/** One start after another: the highest priority, then the lane served longest ago, then the older job. */
function played(all: readonly Lane[]): { lane: number; seq: number }[] {
  const rest = all.map((lane) => ({ ...lane, jobs: [...lane.jobs] }))
  const starts: { lane: number; seq: number }[] = []
  let turn = 10
  for (;;) {
    const heads = rest.filter((lane) => lane.jobs.length > 0)
    heads.sort((a, b) => {
      const [x, y] = [a.jobs[0]!, b.jobs[0]!]
      return y.priority - x.priority || a.turn - b.turn || x.seq - y.seq || a.id - b.id
    })
    const [first] = heads
    if (!first) return starts
    starts.push({ lane: first.id, seq: first.jobs.shift()!.seq })
    if (++first.taken < first.share) continue
    first.turn = ++turn
    first.taken = 0
  }
}

function contender({ id, turn, taken, share, jobs }: Lane): Parameters<typeof startsBefore>[0][number] {
  const levels: { priority: number; count: number }[] = []
  for (const { priority } of jobs) {
    const level = levels.at(-1)
    if (level?.priority === priority) level.count++
    else levels.push({ priority, count: 1 })
  }
  return { id, turn, taken, share, head: jobs[0]!.seq, levels }
}

describe('the order of a line', () => {
  test('counts per lane what starts before each job', () => {
    fc.assert(
      fc.property(lanes, (all) => {
        const starts = played(all)
        for (const lane of all)
          for (const [i, { priority, seq }] of lane.jobs.entries()) {
            const at = starts.findIndex((start) => start.seq === seq)
            const before = i - lane.jobs.findIndex((job) => job.priority === priority)
            const counts = startsBefore(all.map(contender), { lane: lane.id, priority, before })
            for (const { id } of all) {
              const expected = starts.slice(0, at).filter((start) => start.lane === id).length
              expect(counts.get(id) ?? 0).toBe(expected)
            }
          }
      }),
      { numRuns: 500, seed: SEED },
    )
  })

  test('lists the units in that order', () => {
    fc.assert(
      fc.property(lanes, (all) => {
        // Every job costs as many units as its sequence says.
        expect(unitsInTurn(all)).toEqual(played(all).map(({ seq }) => seq))
      }),
      { numRuns: 500, seed: SEED },
    )
  })
})
