import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  CALLBACKS,
  callbackOf,
  callbacksDue,
  checkFlow,
  consequence,
  dependencies,
  type FlowNode,
  MAX_EDGES,
  MAX_NODES,
  MAX_STEPS,
  type NewFlow,
  stateOf,
} from '../../src/jobs/flow.ts'
import type { NewJob } from '../../src/jobs/job.ts'

const JOB: NewJob = {
  id: 'id',
  task: 'work',
  queue: 'q',
  priority: 0,
  input: 'null',
  uses: [],
  maxAttempts: 1,
  runAtMs: null,
  expiresAtMs: null,
  unique: null,
  extra: null,
}

function flowOf(after: readonly (readonly number[])[], rest: Partial<NewFlow> = {}): NewFlow {
  const nodes = after.map((before): FlowNode => ({ job: JOB, delayUs: null, after: before }))
  return { id: 'f', kind: 'group', name: null, nodes, callbacks: {}, extra: null, ...rest }
}

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

  test('exactly one of success and failure is called, and complete with either; nobody for a flow that was cancelled', () => {
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

  test('each step of a chain waits for the one before it; jobs of groups and batches for none', () => {
    expect(dependencies('chain', 3)).toEqual([[], [0], [1]])
    expect(dependencies('group', 2)).toEqual([[], []])
    expect(dependencies('batch', 2)).toEqual([[], []])
  })
})

describe('what no store may be handed', () => {
  const refused = (flow: NewFlow): void =>
    expect(() => checkFlow(flow)).toThrow(expect.objectContaining({ code: 'flow.invalid' }))
  const many = (count: number): number[][] => Array.from({ length: count }, () => [])

  test('a node that waits for itself, for a later one, for one that is not there, or for one twice', () => {
    for (const after of [[[0]], [[], [2], []], [[], [-1]], [[], [0.5]], [[], [0, 0]]]) refused(flowOf(after))
    expect(() => checkFlow(flowOf([[], [0], [0, 1]]))).not.toThrow()
  })

  test('too many nodes, steps or dependencies, or none', () => {
    refused(flowOf([]))
    refused(flowOf(many(MAX_NODES + 1)))
    checkFlow(flowOf(many(MAX_NODES)))
    refused(flowOf(dependencies('chain', MAX_STEPS + 1), { kind: 'chain' }))
    checkFlow(flowOf(dependencies('chain', MAX_STEPS), { kind: 'chain' }))
    const dense = Array.from({ length: 400 }, (_, node) => Array.from({ length: node }, (_each, before) => before))
    expect(dense.flat().length).toBeGreaterThan(MAX_EDGES)
    refused(flowOf(dense))
  })

  test('a chain that is none', () => {
    refused(flowOf([[], []], { kind: 'chain' }))
    refused(flowOf([[], [0], [0]], { kind: 'chain' }))
    refused(flowOf([[], [0], [0, 1]], { kind: 'chain' }))
  })

  test('a batch without callbacks; a unique job, as a node or as a callback', () => {
    refused(flowOf([[]], { kind: 'batch' }))
    const unique = { ...JOB, unique: { key: 'k', onConflict: 'ignore', withinUs: null, states: null } as const }
    refused(flowOf([], { nodes: [{ job: unique, delayUs: null, after: [] }] }))
    refused(flowOf([[]], { kind: 'batch', callbacks: { complete: { job: unique, delayUs: null } } }))
  })
})
