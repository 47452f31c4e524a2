/** The health of a store. */
export interface Diagnosable {
  /** The version of its tables. Asked once, without retries: callers also use it to check whether the store answers. */
  schema(): Promise<SchemaVersion>
}

/** The version of a store's tables. */
export interface SchemaVersion {
  /** The migrations that the store has had. More than `known`: a newer Sluice upgraded it, and this one goes on. */
  readonly stored: number
  /** The migrations that this Sluice knows. */
  readonly known: number
}
