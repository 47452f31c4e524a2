/** A parameter of a statement. Arrays become PostgreSQL arrays. */
export type PgValue = string | number | boolean | null | readonly (string | number | boolean | null)[]

/** Statements of one connection, within a transaction or each by itself. */
export interface Statements {
  /** All rows of a query, as arrays. */
  all<Row extends readonly unknown[]>(sql: string, ...values: PgValue[]): Promise<Row[]>
  /** As `all`, for the call of a function that comes often: a connection of a pool parses and plans it once. */
  call<Row extends readonly unknown[]>(sql: string, ...values: PgValue[]): Promise<Row[]>
  /**
   * Sends a statement behind the next one on this connection, in a transaction of its own, and waits for no answer. Its
   * errors are dropped. Absent: the connection sends nothing before it has its answer.
   */
  behind?(sql: string, ...values: PgValue[]): void
  /** The first row of a query, as an array. */
  get<Row extends readonly unknown[]>(sql: string, ...values: PgValue[]): Promise<Row | undefined>
  /** Runs a statement for its effect. @returns the number of rows changed */
  run(sql: string, ...values: PgValue[]): Promise<number>
  /**
   * Runs several statements in one round trip and returns each one's rows. `$1` and so on are written into the text.
   */
  script(sql: string, ...values: string[]): Promise<(readonly unknown[])[][]>
  /** The last script of a transaction, which it commits in the same round trip; absent: outside of one. */
  last?(sql: string, ...values: string[]): Promise<(readonly unknown[])[][]>
}
