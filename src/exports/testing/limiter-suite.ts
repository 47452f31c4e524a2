/** The cases that every backend of limits passes, for a backend of your own. */
import '../../base/supported-node.ts'
export { limiterCases, limiterSuite, type LimiterCase, type TestFramework } from '../../testing/limiter-suite/suite.ts'
export type { OpenBackend, OpenedBackend } from '../../testing/limiter-suite/subject.ts'
