/** The counts of this process since its start. */
import type { Counted, Times } from '../../engine/events/counted.ts'
import type { Figures } from '../../engine/events/figures.ts'
import type { LoopDelays } from '../../base/event-loop.ts'
import type { WaitView } from '../../engine/events/wait-histogram.ts'
import { counter, type Family, gauge, histogram, single } from './exposition.ts'

/** The figures of one process. */
export interface ProcessFigures {
  readonly figures: Figures
  /** Failures of the store, by code. */
  readonly errors: ReadonlyMap<string, number>
  readonly loop: LoopDelays
  /** The backends of budgets, and whether each answers. */
  readonly backends: readonly { readonly name: string; readonly isUp: boolean }[]
  /** The age of the last successful claim, in s; null: there was none. */
  readonly claimAge: number | null
}

const WHO = ['queue', 'task']

/** The metrics of one process. */
export function processFamilies(process: ProcessFigures): Family[] {
  return [...ofJobs(process.figures), ...ofLimits(process.figures), ...ofTheProcess(process)]
}

function ofJobs({ started, completed, failed, discarded, runs }: Figures): Family[] {
  return [
    counter('sluice_job_started', 'Starts of jobs through this process.', WHO, started.all),
    counter('sluice_job_completed', 'Runs that succeeded.', WHO, completed.all),
    counter('sluice_job_failed', 'Runs that failed; the job may be retried.', WHO, failed.all),
    counter('sluice_job_discarded', 'Jobs that ended without success.', WHO, discarded.all),
    histogram('sluice_job_run_seconds', 'The time of runs.', ['task', 'outcome'], runs.all),
  ]
}

function ofLimits({ waits, units, throttled }: Figures): Family[] {
  const views = waits.view()
  const help = 'The time that starts had waited for the budget of a limit.'
  return [
    histogram('sluice_limit_wait_seconds', help, ['limit'], views.map(timesOfWaits), boundsOf(views)),
    counter('sluice_limit_units', 'Units that starts were charged.', ['limit'], units.all),
    counter('sluice_limit_throttled', 'Jobs that had to wait for a budget.', ['limit'], throttled.all),
  ]
}

function ofTheProcess({ figures, errors, loop, backends, claimAge }: ProcessFigures): Family[] {
  const failures = [...errors].map(([code, value]) => ({ labels: [code], value }))
  const delays = Object.entries({ 0.5: loop.p50, 0.99: loop.p99, 1: loop.max })
  return [
    histogram('sluice_claim_duration_seconds', 'The time of claims.', ['outcome'], figures.claims.all),
    single('sluice_claim_age_seconds', 'The time since the last claim that succeeded.', claimAge),
    counter('sluice_store_errors', 'Calls of the store that failed.', ['code'], failures),
    gauge(
      'sluice_backend_up',
      '1 while this process reaches the backend of budgets.',
      ['backend'],
      backends.map(({ name, isUp }) => ({ labels: [name], value: isUp ? 1 : 0 })),
    ),
    gauge(
      'sluice_event_loop_delay_seconds',
      'How late the event loop of this process ran in the last 10 s or more.',
      ['quantile'],
      delays.map(([quantile, value]) => ({ labels: [quantile], value })),
    ),
  ]
}

function boundsOf(waits: readonly WaitView[]): number[] {
  return (waits[0]?.classes ?? []).map(({ upToMs }) => upToMs / 1000).filter(Number.isFinite)
}

function timesOfWaits({ limit, starts, meanMs, classes }: WaitView): Counted<Times> {
  const value = { classes: classes.map((each) => each.starts), count: starts, sum: (meanMs * starts) / 1000 }
  return { labels: [limit], value }
}
