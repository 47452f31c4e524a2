import { describe, expect, it } from 'vitest'
import { createManualClock } from '../../../src/exports/testing.ts'
import { claims } from './claims.ts'
import { closedBudgets } from './closed-budgets.ts'
import { deputies } from './deputies.ts'
import { fairness } from './fairness.ts'
import { flows } from './flows.ts'
import type { Part, StoreHarness } from './harness.ts'
import { jobs } from './jobs.ts'
import { limits } from './limits.ts'
import { outside } from './outside.ts'
import { schedules } from './schedules.ts'
import { waits } from './waits.ts'
import { overrides } from './overrides.ts'
import { workerScope } from './worker-scope.ts'
import { workers } from './workers.ts'

/** Registers every test of the store's contract for one backend. */
export function storeConformance(harness: StoreHarness): void {
  describe(harness.name, () => {
    describe('jobs', () => jobs(harness))
    describe('claims', () => claims(harness))
    describe('fairness', () => fairness(harness))
    describe('closed budgets', () => closedBudgets(harness))
    describe('deputies', () => deputies(harness))
    part(harness, 'flows', flows)
    describe('limits', () => limits(harness))
    describe('schedules', () => schedules(harness))
    describe('waits', () => waits(harness))
    describe('overrides', () => overrides(harness))
    describe('scope worker', () => workerScope(harness))
    describe('workers', () => workers(harness))
    part(harness, 'outside', outside)
  })
}

/** The cases of a part, or where the backend lacks it, that it says so. */
function part(harness: StoreHarness, name: Part, cases: (harness: StoreHarness) => void): void {
  describe(name, () => {
    if (!harness.lacks?.includes(name)) return cases(harness)
    it('is told to be lacking', async () => {
      const store = await harness.open(createManualClock())
      const call = name === 'flows' ? store.flows({}) : store.outside.queues()
      await expect(call).rejects.toMatchObject({ code: 'store.lacks' })
      await store.close()
    })
  })
}
