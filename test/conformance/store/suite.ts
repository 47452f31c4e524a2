import { describe } from 'vitest'
import { claims } from './claims.ts'
import { closedBudgets } from './closed-budgets.ts'
import { dropBeside } from './drop-beside.ts'
import { deputies } from './deputies.ts'
import { fairness } from './fairness.ts'
import { flows } from './flows.ts'
import type { StoreHarness } from './harness.ts'
import { jobs } from './jobs.ts'
import { knownTasks } from './known-tasks.ts'
import { limits } from './limits.ts'
import { outside } from './outside.ts'
import { queueLimits } from './queue-limits.ts'
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
    describe('drop beside another limit', () => dropBeside(harness))
    describe('deputies', () => deputies(harness))
    describe('flows', () => flows(harness))
    describe('tasks that a claimer lists', () => knownTasks(harness))
    describe('limits', () => limits(harness))
    describe('queue limits', () => queueLimits(harness))
    describe('schedules', () => schedules(harness))
    describe('waits', () => waits(harness))
    describe('overrides', () => overrides(harness))
    describe('scope worker', () => workerScope(harness))
    describe('workers', () => workers(harness))
    describe('outside', () => outside(harness))
  })
}
