import { statfsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

// Hundreds of tests start processes of their own: each would compile the same modules again.
process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, 'node_modules/.cache/compiled')

// No test is about a disk: in memory, where there is room, no commit waits for one.
if (hasRoom('/dev/shm')) process.env['TMPDIR'] ??= '/dev/shm'

function hasRoom(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize > 4 * 2 ** 30
  } catch {
    return false
  }
}

/** The suites in short files are the longest to run: begun last, they would keep one processor busy and the other waiting. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const isLong = ({ moduleId }: TestSpecification): boolean =>
      /\/test\/(store|simulation|conformance|flows|crash|dashboard)\//.test(moduleId)
    return [...new Set(sorted.map((file) => file.project.name))].flatMap((project) => {
      const own = sorted.filter((file) => file.project.name === project)
      return [...own.filter(isLong), ...own.filter((file) => !isLong(file))]
    })
  }
}

/** Tests that measure real processes or servers by the real clock: beside busy ones they would measure those, not us. */
const REAL_TIME = [
  'test/crash/{hot-flows,kill,lease}.test.ts',
  'test/cli/demo.test.ts',
  'test/acceptance/process-limits.test.ts',
  'test/bridge/bullmq.test.ts',
  'test/limiter/{nats-trouble,trouble}.test.ts',
  'test/limiter/redis-{cluster,processes}.test.ts',
  'test/budgets/{backends,hot-key,processes}.test.ts',
  'test/engine/budgets-{shared,trouble}.test.ts',
]

/** Tests that run real processes or wait in real time, but measure none: several at once, since most of them wait. */
const PROCESSES = [
  'test/examples.test.ts',
  'test/dashboard/{actions,odd-texts,pages,processes}.test.ts',
  'test/engine/silent-store.test.ts',
  'test/database/silence.test.ts',
  'test/conformance/ojs/*.test.ts',
  'test/http/{listen,workers}.test.ts',
  'test/crash/**/*.test.ts',
  'test/cli/**/*.test.ts',
  'test/acceptance/processes.test.ts',
]

// `npm test` runs the project virtual, which waits for no real time; `npm run test:all` runs every project.
// Types are checked by `npm run types`, which compiles test/ with the sources.
export default defineConfig({
  test: {
    // Processes, not threads: crash tests kill children, and the SQLite connections of one file must not meet in one process.
    pool: 'forks',
    // Of two processors vitest would use one; a test that waits for a server leaves its own to others.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    // Only what hangs is ended: how long a test takes hangs on what else the machine does.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000 } },
    // A shared machine may stop one of the servers for a moment: CI runs a failed test once more, and says so.
    retry: process.env['CI'] === 'true' ? 1 : 0,
    teardownTimeout: 10_000,
    allowOnly: false,
    passWithNoTests: false,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        extends: true,
        test: {
          name: 'virtual',
          include: ['test/**/*.test.ts'],
          // A private workspace below test/ has packages of its own, with their tests.
          exclude: ['**/node_modules/**', ...PROCESSES, ...REAL_TIME, 'test/long/**'],
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          // The same starts are asserted whether a claim grants them ahead or not.
          name: 'ahead',
          env: { SLUICE_TEST_AHEAD: '20ms' },
          include: ['test/acceptance/*.test.ts'],
          exclude: [...PROCESSES, ...REAL_TIME],
          // Beside those that wait: a group of its own would end with one processor busy.
          maxWorkers: availableParallelism() + 1,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'processes',
          include: PROCESSES,
          exclude: REAL_TIME,
          maxWorkers: availableParallelism() + 1,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'real-time',
          include: REAL_TIME,
          exclude: [],
          // Each of them leaves most of a processor idle, and so disturbs one other little.
          maxWorkers: 2,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
