// The Open Job Spec's own suites against a real server; what cannot be passed stands in known-defects.txt, with reasons.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { everyStore, type StoreKind } from '../../stores.ts'
import { serve } from './serve.ts'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const run = promisify(execFile)

/** The level of each part, as the runner has it. */
const LEVELS = ['0', '1', '2', '3', '4', 'ext'] as const

interface Report {
  readonly tests: readonly {
    readonly path: string
    readonly level: (typeof LEVELS)[number]
    readonly status: 'passed' | 'failed' | 'skipped'
    readonly failures: unknown
  }[]
}

const KINDS = await everyStore('the suites of the Open Job Spec')

// One server per store for all levels. The tests wait more than they work, so both stores run at the same time.
test('the suites of the Open Job Spec pass on every store', async () => {
  const reports = await Promise.all(KINDS.map(async (kind) => [kind.name, await report(kind)] as const))
  for (const [store, { tests }] of reports) {
    expect(
      tests.filter(({ status }) => status === 'failed'),
      `failed on ${store}`,
    ).toEqual([])
    for (const each of LEVELS) {
      const passed = tests.filter(({ level, status }) => level === each && status === 'passed')
      expect(passed.length, `of level ${each}, passed on ${store}`).toBeGreaterThan(8)
    }
  }
}, 600_000)

async function report(kind: StoreKind): Promise<Report> {
  const { url } = await serve('--store', kind.create(), '--port', '0', '--test-mode')
  const { stdout } = await run(
    process.execPath,
    [
      here('run.mjs'),
      '--url',
      url,
      '--reset-url',
      '{url}/test/reset',
      '--suites',
      here('suites'),
      '--skip-file',
      here('known-defects.txt'),
      // One test of level 2 waits for two minutes of a cron; test/http/cron.test.ts has it on the virtual clock.
      '--max-wait',
      '20',
      '--json',
    ],
    { maxBuffer: 64 * 1_048_576 },
  ).catch((error: { stdout: string }) => error)
  return JSON.parse(stdout) as Report
}
