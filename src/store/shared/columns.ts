/** One column of a question: the type of its values, and the SQL that names it. */
export interface Column<T> {
  /** Absent: the column has the name of its field. */
  readonly sql?: string
  /** For types only: it never has a value. */
  readonly type?: T
}

/** The fields of the rows that these columns make. */
export type RowOf<C> = C extends Columns<infer Fields> ? Fields : never

/** The columns of a question in one place: their names, their types and their order. */
export interface Columns<Fields extends object> {
  /** The list for a SELECT or a RETURNING. */
  readonly list: string
  /** The same list, with a table's alias before plain names; expressions stay unchanged. */
  readonly of: (alias: string) => string
  /** Names the fields of a row that begins with these columns; undefined without a row. */
  readonly read: <Row extends readonly unknown[] | undefined>(row: Row) => Fields | Extract<Row, undefined>
}

type Fields<C> = { readonly [Name in keyof C]: C[Name] extends Column<infer T> ? T : never }

const PLAIN_NAME = /^\w+$/

/** A column of values of one type. @param sql its name if it differs from the field's, or an expression */
export function column<T>(sql?: string): Column<T> {
  return sql === undefined ? {} : { sql }
}

type Named<Name extends string, T> = { readonly [Each in Name]: Column<T> }

function named<Name extends string, T>(names: readonly Name[]): Named<Name, T> {
  return Object.fromEntries(names.map((name) => [name, {}])) as Named<Name, T>
}

/** Columns of numbers that have the names of their fields. */
export function numbers<Name extends string>(...names: readonly Name[]): Named<Name, number> {
  return named(names)
}

/** Columns of texts that have the names of their fields. */
export function texts<Name extends string>(...names: readonly Name[]): Named<Name, string> {
  return named(names)
}

/** Columns of numbers or NULL that have the names of their fields. */
export function numbersOrNull<Name extends string>(...names: readonly Name[]): Named<Name, number | null> {
  return named(names)
}

/** Columns of texts or NULL that have the names of their fields. */
export function textsOrNull<Name extends string>(...names: readonly Name[]): Named<Name, string | null> {
  return named(names)
}

/** Columns by the names of their fields, in the order of the question. */
export function columns<C extends Readonly<Record<string, Column<unknown>>>>(given: C): Columns<Fields<C>> {
  const names = Object.keys(given)
  const sql = names.map((name) => given[name]?.sql ?? name)
  // A copy has its final shape from the start, which is several times faster to fill than an object that grows.
  const blank = Object.fromEntries(names.map((name) => [name, null])) as Record<string, unknown>
  const read = <Row extends readonly unknown[] | undefined>(row: Row): Fields<C> | Extract<Row, undefined> => {
    if (row === undefined) return undefined as Extract<Row, undefined>
    const fields = { ...blank }
    for (let i = 0; i < names.length; i++) fields[names[i] as string] = row[i]
    return fields as Fields<C>
  }
  return {
    list: sql.join(', '),
    of: (alias) => sql.map((each) => (PLAIN_NAME.test(each) ? `${alias}.${each}` : each)).join(', '),
    read,
  }
}
