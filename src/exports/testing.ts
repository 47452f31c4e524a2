/** The test kit: a manual clock that engines run on. */
export { createManualClock, type ManualClock } from '../testing/manual-clock.ts'
