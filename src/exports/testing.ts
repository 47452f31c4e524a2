/** The test kit: a manual clock that engines run on, and a way to let it run until all is done. */
export { createManualClock, type ManualClock } from '../testing/manual-clock.ts'
export { drain } from '../testing/drain.ts'
