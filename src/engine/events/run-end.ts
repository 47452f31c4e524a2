/** How one run ended, before anything is written. */
export type RunEnd =
  | { readonly kind: 'returned'; readonly value: unknown }
  /** `after`: it had been asked to end before. */
  | { readonly kind: 'threw'; readonly error: Error; readonly after: EndReason | null }
  /** Ended from outside: cancelled, lease lost, worker stopped. */
  | { readonly kind: 'ended'; readonly by: EndReason }

/** Who ended a run from outside. */
export type EndReason = 'cancel' | 'lease' | 'stop'
