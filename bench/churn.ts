// The soak's shared parts: the tasks, and the reports of its processes.
import { input, limit, type Limit, type Task, task } from '../src/exports/index.ts'

/** One job of the churn. */
export interface Churn {
  readonly key: string
  /** The enqueue time of a measured job, in µs of the machine's steady clock. */
  readonly atUs?: number
}

/** The work of a process since its last report. */
export interface Progress {
  readonly ran: number
  /** Durations of claims that returned jobs, in ms. */
  readonly claimsMs: readonly number[]
  readonly settlesMs: readonly number[]
  /** Waits of measured jobs, in ms. */
  readonly pickUpsMs: readonly number[]
}

/** Keys whose lanes wait again and again: each gets more jobs than its rate allows. */
export const TIGHT_KEYS = 200
/** Starts per second of one tight key. */
export const TIGHT_RATE = 2

/**
 * The tasks of the churn: without limits, with a limit that never refuses, with waiting lanes, and with a wait of a
 * year.
 */
export function churnTasks(
  run: (churn: Churn) => void,
): Record<'free' | 'keyed' | 'tight' | 'probe' | 'closed', Task<Churn, Churn, void>> {
  const of = (name: string, limits?: Limit): Task<Churn, Churn, void> =>
    task(`soak.${name}`, input<Churn>(), {
      limits: limits ? [limits.by((churn) => churn.key)] : [],
      run,
    })
  const roomy = limit('soak-roomy', { rate: 1_000_000, per: '1s' })
  return {
    free: of('free'),
    keyed: of('keyed', roomy),
    tight: of('tight', limit('soak-tight', { rate: TIGHT_RATE, per: '1s' })),
    probe: of('probe', roomy),
    closed: of('closed', limit('soak-closed', { rate: 1, per: '365d' })),
  }
}
