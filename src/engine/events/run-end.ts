/** The end of a run, before any write. */
export type RunEnd =
  | { readonly kind: 'returned'; readonly value: unknown }
  /** `after`: the engine had already aborted it. */
  | { readonly kind: 'threw'; readonly error: Error; readonly after: EndReason | null }
  /** Aborted: cancelled, lease lost, or worker stopped. */
  | { readonly kind: 'ended'; readonly by: EndReason }

/** The cause of an abort. */
export type EndReason = 'cancel' | 'lease' | 'stop'
