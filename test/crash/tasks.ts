import { type Context, input, limit, type Policy, type Task, task } from '../../src/exports/index.ts'

/** One call of the partner, which is the observer. */
export interface Call {
  readonly tenant: string
}

/** The partner's own terms: in no second, wherever it begins, more than this many calls of one tenant. */
export const PER_SECOND = 20
/** Jobs that run at once in all processes together. */
export const AT_ONCE = 8

/** By how much one call may take longer to arrive than another, on a machine that is busy syncing its disk and starting processes. */
export const GUARD_MS = 500

const TENANT: Policy = { window: 'sliding', max: PER_SECOND, per: '1s', guard: GUARD_MS }

/** The task that workers run and the test enqueues; a test's own process must never come to run it. */
export function callTask(
  run: (call: Call, ctx: Context<Call>) => Promise<string> = () => Promise.reject(new Error('not by this process')),
): Task<Call, Call, string> {
  return task('partner.call', input<Call>(), {
    limits: [limit('tenant', TENANT).by((call) => call.tenant), limit('fleet', { concurrency: AT_ONCE })],
    // Every kill may cost a job one attempt.
    retry: { attempts: 50 },
    run,
  })
}

/** A task without limits, for what is only about storing. */
export function noteTask(): Task<number, number, number> {
  return task('note', input<number>(), { run: (n) => n })
}

/** The place of a flow's job, as the job reports it: its node, and how many results it was handed. */
export interface StepReport {
  readonly node: number
  readonly handed: number
}

/** A job of a flow, which takes so many ms. */
export function stepTask(
  run: (ms: number, ctx: Context<number>) => Promise<StepReport> = () =>
    Promise.reject(new Error('not by this process')),
): Task<number, number, StepReport> {
  return task('step', input<number>(), { retry: { attempts: 50 }, run })
}
