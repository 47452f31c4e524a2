/** The test kit: a manual clock that engines run on, and a way to let it run until all is done. */
import '../base/supported-node.ts'
export { createManualClock, type ManualClock } from '../testing/manual-clock.ts'
export { drain } from '../testing/drain.ts'
