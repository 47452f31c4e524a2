import { uuidv7 } from 'uuidv7'
import type { NewJob } from '../../src/jobs/job.ts'
import { usesOf } from '../conformance/store/store-harness.ts'

/** A job of the queue q with three attempts, and with limits as `usesOf` reads them. */
export function job(task: string, limits: readonly string[] = [], more: Partial<NewJob> = {}): NewJob {
  return {
    id: uuidv7(),
    task,
    queue: 'q',
    priority: 0,
    input: 'null',
    uses: usesOf(limits),
    maxAttempts: 3,
    runAtMs: null,
    expiresAtMs: null,
    unique: null,
    extra: null,
    ...more,
  }
}
