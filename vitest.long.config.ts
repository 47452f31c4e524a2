import { defineConfig } from 'vitest/config'

// What takes minutes, and is run before a release rather than at each change: `npm run test:long`.
export default defineConfig({
  test: {
    include: ['test/long/**/*.test.ts'],
    pool: 'forks',
    fileParallelism: false,
    testTimeout: 1_800_000,
    teardownTimeout: 10_000,
    allowOnly: false,
    passWithNoTests: false,
  },
})
