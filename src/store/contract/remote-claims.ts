/** Claims for remote workers: several may share one, and the answer of one may be lost. */

/** A claim that was made for a remote worker. */
export interface RemoteClaim {
  readonly worker: number
  readonly claimId: string
}

/** A remote worker that takes part in a claim. */
export interface Taker extends RemoteClaim {
  readonly name: string
  readonly slots: number
}

/** The jobs given back of remote claims. */
export interface ReleasedClaims {
  /** The number of jobs given back. */
  readonly jobs: number
  /** Their claims. */
  readonly claimIds: readonly string[]
}
