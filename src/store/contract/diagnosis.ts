/** The health of a store. */
export interface Diagnosable {
  /** The version of its tables. Asked once, without retries: callers also use it to check whether the store answers. */
  schema(): Promise<SchemaVersion>
  /** Figures of its database, for a person who looks for trouble. It reads statistics, and no job. */
  diagnose(): Promise<Diagnosis>
}

/** The version of a store's tables. */
export interface SchemaVersion {
  /** The migrations that the store has had. More than `known`: a newer Sluice upgraded it, and this one goes on. */
  readonly stored: number
  /** The migrations that this Sluice knows. */
  readonly known: number
}

/** Figures of a database. */
export interface Diagnosis {
  /** Its name and version. */
  readonly database: string
  /** The database's wall clock minus that of this host, in ms, half a round trip more or less; 0: they share a host. */
  readonly clockOffsetMs: number
  /** The time of one question and its answer, in ms. */
  readonly roundTripMs: number
  /** The size of the store's tables and indexes, in bytes. */
  readonly bytes: number
  /** Bytes of the file that hold nothing; 0 where the database does not tell. */
  readonly freeBytes: number
  /** The size of the write-ahead log; null: this user may not see it. */
  readonly logBytes: number | null
  /** Rows of each table as the database estimates them; empty where it counts none. */
  readonly tables: readonly TableRows[]
  /** Open transactions of at least 1 s, the longest first. */
  readonly transactions: readonly OpenTransaction[]
  /** Sessions that wait for the lock of another, the longest first. */
  readonly blocked: readonly BlockedSession[]
}

/** The rows of one table. */
export interface TableRows {
  readonly name: string
  readonly live: number
  /** Deleted or replaced rows that still take up space. */
  readonly dead: number
}

/** A transaction that is open for long. */
export interface OpenTransaction {
  readonly pid: number
  readonly seconds: number
  /** As the database says: `idle in transaction`. */
  readonly state: string
  /** The name that its client gave. */
  readonly application: string
}

/** A session that waits for a lock. */
export interface BlockedSession {
  readonly pid: number
  readonly seconds: number
  /** The sessions that it waits for. */
  readonly by: readonly number[]
}
