// The simulator of flows has to be able to fail: each of these faults is put into the store, and must be noticed.
import { expect, test, vi } from 'vitest'
import { onSqlite } from '../stores.ts'
import { simulateFlows } from './flows.ts'
import { withStatements } from './with-statements.ts'

const SEEDS = 40

// A fault that is found late has to be found on a busy machine too.
vi.setConfig({ testTimeout: 180_000 })

/** A part of the store's statements, what stands in its place, and the seed that notices it as things are. */
const FAULTS: readonly (readonly [fault: string, from: string, to: string, first: number])[] = [
  ['a signal that is handed over again', 'SET payload = NULL', 'SET payload = payload', 5],
  ['a flow that forgets which ends and signals have come', 'events = (e.value ->> 14)', 'events = 0', 8],
  ['permits that a flow forgets to hold', 'held = e.value ->> 12', 'held = NULL', 1],
  ['steps that a new generation remembers', 's.generation = f.generation', 's.generation <= f.generation', 5],
  ['a state that stays as it was', 'input = coalesce(m.value ->> 13, input)', 'input = input', 1],
]

/** The first seed that notices a fault; null: none does. */
async function noticedAt(first: number): Promise<number | null> {
  for (let tried = 0; tried < SEEDS; tried++) {
    const seed = ((first - 1 + tried) % SEEDS) + 1
    try {
      await simulateFlows(seed, onSqlite)
    } catch {
      return seed
    }
  }
  return null
}

test.each(FAULTS)('the simulator of flows notices %s', async (_, from, to, first) => {
  expect(await withStatements(from, to, () => noticedAt(first))).not.toBeNull()
})
