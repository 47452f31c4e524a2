// The Open Job Spec's own suites against a real server; what cannot be passed stands in known-defects.txt, with reasons.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { everyStore, type StoreKind } from '../../stores.ts'
import { serve } from './serve.ts'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const run = promisify(execFile)

interface Report {
  readonly tests: readonly {
    readonly path: string
    readonly status: 'passed' | 'failed' | 'skipped'
    readonly failures: unknown
  }[]
}

/** The level of each part, as the runner has it. */
const LEVELS = ['0', '1', '2', '3', '4', 'ext'] as const

const KINDS = await everyStore('the suites of the Open Job Spec')

// They wait more than they work: a level runs on both stores at the same time.
describe('the suites of the Open Job Spec', () => {
  test.each(LEVELS)(
    'level %s',
    async (level) => {
      const reports = await Promise.all(KINDS.map(async (kind) => [kind.name, await report(kind, level)] as const))
      for (const [store, { tests }] of reports) {
        const failed = tests.filter(({ status }) => status === 'failed')
        expect(failed, `failed on ${store}`).toEqual([])
        expect(tests.filter(({ status }) => status === 'passed').length, `passed on ${store}`).toBeGreaterThan(8)
      }
    },
    180_000,
  )
})

async function report(kind: StoreKind, level: string): Promise<Report> {
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
      '--level',
      level,
      '--json',
    ],
    { maxBuffer: 64 * 1_048_576 },
  ).catch((error: { stdout: string }) => error)
  return JSON.parse(stdout) as Report
}
