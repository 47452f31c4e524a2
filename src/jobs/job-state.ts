/**
 * Where a job stands; the eight states of the Open Job Spec, with its meaning. *Throttled* is not one of them: it is an
 * `available` job whose budget is used up.
 */
export type JobState =
  | 'scheduled'
  | 'available'
  | 'pending'
  | 'active'
  | 'completed'
  | 'retryable'
  | 'cancelled'
  | 'discarded'

/** Every state, in the order of the specification. */
export const STATES: readonly JobState[] = [
  'scheduled',
  'available',
  'pending',
  'active',
  'completed',
  'retryable',
  'cancelled',
  'discarded',
]

/** What moves a job from one state to another; named like the operation that does it. */
export type TransitionCause =
  | 'activate'
  | 'promote'
  | 'claim'
  | 'reschedule'
  | 'reject'
  | 'settle'
  | 'release'
  | 'recover'
  | 'cancel'
  | 'retry'

/** One allowed change of state, and what may bring it about. */
export interface Transition {
  readonly from: JobState
  readonly to: JobState
  readonly by: readonly TransitionCause[]
}

/**
 * Every change of state that is allowed; there is no other. `settle` to `available` is a next step or a `RateLimited` job
 * that goes back to its lane, `settle` to `scheduled` a snooze; `reject` is a drop, a wait that became too long, or an expiry.
 */
export const TRANSITIONS: readonly Transition[] = [
  { from: 'scheduled', to: 'available', by: ['promote'] },
  { from: 'scheduled', to: 'cancelled', by: ['cancel'] },
  { from: 'pending', to: 'available', by: ['activate'] },
  { from: 'pending', to: 'cancelled', by: ['cancel'] },
  { from: 'available', to: 'active', by: ['claim'] },
  { from: 'available', to: 'scheduled', by: ['reschedule'] },
  { from: 'available', to: 'discarded', by: ['reject'] },
  { from: 'available', to: 'cancelled', by: ['cancel'] },
  { from: 'active', to: 'completed', by: ['settle'] },
  { from: 'active', to: 'retryable', by: ['settle'] },
  { from: 'active', to: 'available', by: ['settle', 'release', 'recover'] },
  { from: 'active', to: 'scheduled', by: ['settle'] },
  { from: 'active', to: 'discarded', by: ['settle', 'recover'] },
  { from: 'active', to: 'cancelled', by: ['settle', 'cancel'] },
  { from: 'retryable', to: 'available', by: ['promote'] },
  { from: 'retryable', to: 'cancelled', by: ['cancel'] },
  { from: 'discarded', to: 'available', by: ['retry'] },
]

/** Tells whether a job in this state has ended; only a manual retry brings a discarded one back. */
export function isFinal(state: JobState): boolean {
  return state === 'completed' || state === 'cancelled' || state === 'discarded'
}
