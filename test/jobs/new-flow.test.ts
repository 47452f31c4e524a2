import { describe, expect, test } from 'vitest'
import {
  checkFlow,
  dependencies,
  type FlowNode,
  MAX_EDGES,
  MAX_NODES,
  MAX_STEPS,
  type NewFlow,
} from '../../src/jobs/new-flow.ts'
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

test('each step of a chain waits for the one before it; jobs of groups and batches for none', () => {
  expect(dependencies('chain', 3)).toEqual([[], [0], [1]])
  expect(dependencies('group', 2)).toEqual([[], []])
  expect(dependencies('batch', 2)).toEqual([[], []])
})

describe('what no store may be handed', () => {
  const expectRefused = (flow: NewFlow): void =>
    expect(() => checkFlow(flow)).toThrow(expect.objectContaining({ code: 'flow.invalid' }))
  const many = (count: number): number[][] => Array.from({ length: count }, () => [])

  test('a node that waits for itself, for a later one, for one that is not there, or for one twice', () => {
    for (const after of [[[0]], [[], [2], []], [[], [-1]], [[], [0.5]], [[], [0, 0]]]) expectRefused(flowOf(after))
    expect(() => checkFlow(flowOf([[], [0], [0, 1]]))).not.toThrow()
  })

  test('too many nodes, steps or dependencies, or none', () => {
    expectRefused(flowOf([]))
    expectRefused(flowOf(many(MAX_NODES + 1)))
    checkFlow(flowOf(many(MAX_NODES)))
    expectRefused(flowOf(dependencies('chain', MAX_STEPS + 1), { kind: 'chain' }))
    checkFlow(flowOf(dependencies('chain', MAX_STEPS), { kind: 'chain' }))
    const dense = Array.from({ length: 400 }, (_, node) => Array.from({ length: node }, (_each, before) => before))
    expect(dense.flat().length).toBeGreaterThan(MAX_EDGES)
    expectRefused(flowOf(dense))
  })

  test('a chain that is none', () => {
    expectRefused(flowOf([[], []], { kind: 'chain' }))
    expectRefused(flowOf([[], [0], [0]], { kind: 'chain' }))
    expectRefused(flowOf([[], [0], [0, 1]], { kind: 'chain' }))
  })

  test('a batch without callbacks; a unique job, as a node or as a callback', () => {
    expectRefused(flowOf([[]], { kind: 'batch' }))
    const unique = { ...JOB, unique: { key: 'k', onConflict: 'ignore', withinUs: null, states: null } as const }
    expectRefused(flowOf([], { nodes: [{ job: unique, delayUs: null, after: [] }] }))
    expectRefused(flowOf([[]], { kind: 'batch', callbacks: { complete: { job: unique, delayUs: null } } }))
  })
})
