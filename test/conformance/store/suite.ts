import { describe } from 'vitest'
import { ahead } from './ahead.ts'
import { calls } from './calls.ts'
import { changeJobs } from './change-jobs.ts'
import { claims } from './claims.ts'
import { claimsWithEnqueues } from './claims-with-enqueues.ts'
import { closedBudgets } from './closed-budgets.ts'
import { dropElsewhere } from './drop-elsewhere.ts'
import { deputies } from './deputies.ts'
import { elsewhere } from './elsewhere.ts'
import { eventLog } from './event-log.ts'
import { fairness } from './fairness.ts'
import { findJobs } from './find-jobs.ts'
import { flows } from './flows.ts'
import type { StoreBackend } from './backend.ts'
import { guarantees } from './guarantees.ts'
import { jobs } from './jobs.ts'
import { keptShares } from './kept-shares.ts'
import { knownTasks } from './known-tasks.ts'
import { limits } from './limits.ts'
import { manyDue } from './many-due.ts'
import { manyKeys } from './many-keys.ts'
import { remote } from './remote.ts'
import { queueLimits } from './queue-limits.ts'
import { schedules } from './schedules.ts'
import { shadow } from './shadow.ts'
import { stripes } from './stripes.ts'
import { unkept } from './unkept.ts'
import { waits } from './waits.ts'
import { overrides } from './overrides.ts'
import { workerScope } from './worker-scope.ts'
import { workers } from './workers.ts'
import { workflowEnds } from './workflow-ends.ts'
import { workflows } from './workflows.ts'

/** Registers every test of the store's contract for one backend. */
export function storeConformance(backend: StoreBackend): void {
  describe(backend.name, () => {
    describe('jobs', () => jobs(backend))
    describe('finding jobs', () => findJobs(backend))
    describe('a change of jobs', () => changeJobs(backend))
    describe('jobs that are kept for no time', () => unkept(backend))
    describe('claims', () => claims(backend))
    describe('calls of several processes', () => calls(backend))
    describe('claims made with an enqueue', () => claimsWithEnqueues(backend))
    describe('starts granted ahead', () => ahead(backend))
    describe('budgets elsewhere', () => elsewhere(backend))
    describe('fairness', () => fairness(backend))
    describe('shares that are kept', () => keptShares(backend))
    describe('closed budgets', () => closedBudgets(backend))
    describe('drop beside another limit', () => dropElsewhere(backend))
    describe('deputies', () => deputies(backend))
    describe('shadow mode', () => shadow(backend))
    describe('guaranteed shares', () => guarantees(backend))
    describe('events', () => eventLog(backend))
    describe('flows', () => flows(backend))
    describe('workflows', () => workflows(backend))
    describe('the ends of workflows', () => workflowEnds(backend))
    describe('tasks that a claimer lists', () => knownTasks(backend))
    describe('limits', () => limits(backend))
    describe.skipIf(backend.name === 'SQLite on a file')('many keys that are due', () => manyDue(backend))
    describe('many keys of one call', () => manyKeys(backend))
    describe('queue limits', () => queueLimits(backend))
    describe('stripes', () => stripes(backend))
    describe('schedules', () => schedules(backend))
    describe('waits', () => waits(backend))
    describe('overrides', () => overrides(backend))
    describe('scope worker', () => workerScope(backend))
    describe('workers', () => workers(backend))
    describe('remote', () => remote(backend))
  })
}
