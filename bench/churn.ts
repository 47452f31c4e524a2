// What the soak's processes have in common: the tasks, and what they tell of their work.
import { input, limit, type Limit, type Task, task } from '../src/exports/index.ts'

/** One job of the churn. */
export interface Churn {
  readonly key: string
  /** When it was enqueued, µs of the machine's steady clock; only of jobs whose pick-up is measured. */
  readonly atUs?: number
}

/** What a worker process has done since it last told. */
export interface Progress {
  readonly ran: number
  /** How long claims that brought jobs took, ms. */
  readonly claimsMs: readonly number[]
  readonly settlesMs: readonly number[]
  /** How long measured jobs had waited, ms. */
  readonly pickUpsMs: readonly number[]
}

/** Keys whose lanes wait again and again: each is asked for more than its rate. */
export const TIGHT_KEYS = 200
/** Starts per second of one tight key. */
export const TIGHT_RATE = 2

/** The tasks of the churn: one without limits, one whose limit never bites, one whose lanes wait, one that waits for a year. */
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
