import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { CALLBACKS, callbackOf, callbacksDue, consequence, stateOf } from '../../src/jobs/flow.ts'

describe('the state of a flow', () => {
  const tally = fc
    .tuple(fc.nat(20), fc.nat(20), fc.nat(20), fc.nat(20))
    .map(([completed, discarded, cancelled, open]) => ({
      completed,
      discarded,
      cancelled,
      total: completed + discarded + cancelled + open,
    }))

  test('it runs until every node has ended, then it completed only if all of them did', () => {
    fc.assert(
      fc.property(tally, (given) => {
        const { total, completed, discarded, cancelled } = given
        const open = total - completed - discarded - cancelled
        const state = stateOf(given)
        expect(state === 'running').toBe(open > 0)
        expect(state === 'completed').toBe(open === 0 && discarded + cancelled === 0)
      }),
    )
  })

  test('one more end never takes a flow back', () => {
    fc.assert(
      fc.property(tally, fc.constantFrom('completed', 'discarded', 'cancelled'), (given, end) => {
        fc.pre(stateOf(given) === 'running')
        const next = { ...given, [end]: given[end] + 1 }
        if (end !== 'completed') expect(stateOf(next)).not.toBe('completed')
        if (stateOf(next) === 'running')
          expect(next.completed + next.discarded + next.cancelled).toBeLessThan(next.total)
      }),
    )
  })

  test('exactly one of success and failure is called, and complete with either; none for a cancelled flow', () => {
    expect(callbacksDue('completed')).toEqual(['success', 'complete'])
    expect(callbacksDue('failed')).toEqual(['failure', 'complete'])
    expect(callbacksDue('cancelled')).toEqual([])
    expect(callbacksDue('running')).toEqual([])
  })

  test('only a node that completed lets others go on', () => {
    expect(consequence('completed')).toBe('release')
    expect(consequence('discarded')).toBe('stop')
    expect(consequence('cancelled')).toBe('stop')
  })
})

describe('nodes', () => {
  test('callbacks stand behind the nodes of the flow', () => {
    expect([0, 4, 5, 6, 7, 8].map((node) => callbackOf(node, 5))).toEqual([null, null, ...CALLBACKS, null])
  })
})
