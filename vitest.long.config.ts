import { defineConfig } from 'vitest/config'

/** Suites that `npm test` runs in part: here all of each, with properties drawn afresh. */
const SIZED = [
  'test/simulation/*.test.ts',
  'test/store/*.model.test.ts',
  'test/acceptance/{scale,several-limits,traps}.test.ts',
  'test/engine/{rejected-backlogs,expected-start}.test.ts',
  'test/http/fuzz.test.ts',
  'test/crash/{statements,workflows}.test.ts',
  'test/flows/crowds.test.ts',
  'test/model/model.test.ts',
  'test/policy/*.test.ts',
]

// What takes an hour, and is run before a release rather than at each change: `npm run test:long`.
export default defineConfig({
  test: {
    include: ['test/long/**/*.test.ts', ...SIZED],
    env: { SLUICE_LONG: '1' },
    pool: 'forks',
    fileParallelism: false,
    testTimeout: 1_800_000,
    teardownTimeout: 10_000,
    allowOnly: false,
    passWithNoTests: false,
  },
})
