import { defineConfig } from 'vitest/config'

// Everything named *.test.ts under test/ runs, crash/ and simulation/ too: what is left out of `npm test` is soon broken.
// Types are checked by `npm run types`, which compiles test/ with the sources.
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: [],
    // Processes, not threads: crash tests kill children, and the SQLite connections of one file must not meet in one process.
    pool: 'forks',
    testTimeout: 30_000,
    hookTimeout: 30_000,
    teardownTimeout: 10_000,
    allowOnly: false,
    passWithNoTests: false,
  },
})
