/**
 * The eight job states of the Open Job Spec. *Throttled* is not one of them: such a job is `available`, and its budget
 * is used up.
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

/** The states of a job that has ended. */
export type JobEnd = 'completed' | 'cancelled' | 'discarded'

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

/** The operation that moves a job from one state to another. */
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

/** One allowed state change and its causes. */
export interface Transition {
  readonly from: JobState
  readonly to: JobState
  readonly by: readonly TransitionCause[]
}

/**
 * All allowed state changes. `settle` to `available` is a next step or a `RateLimited` job that returns to its lane.
 * `settle` to `scheduled` is a snooze. `reject` is a drop, a wait that became too long, or an expiry.
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

/** Whether a job in this state has ended. Only a manual retry revives a discarded job. */
export function isFinal(state: JobState): boolean {
  return state === 'completed' || state === 'cancelled' || state === 'discarded'
}
