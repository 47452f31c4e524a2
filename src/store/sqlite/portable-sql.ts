import type { SQLInputValue } from 'node:sqlite'
import type { SqliteConnection } from '../../database/sqlite.ts'
import type { Sql, SqlValue } from '../shared/sql.ts'

/** Replacements of PostgreSQL's terms: SQLite has no schema, no types of parameters, no arrays and no locks of rows. */
const OTHERWISE: readonly (readonly [RegExp, string])[] = [
  [/\bsluice\./g, ''],
  [/::\w+(\[\])?/g, ''],
  [/\$(\d+)/g, '?$1'],
  [/= ANY \((\?\d+)\)/g, 'IN (SELECT value FROM json_each($1))'],
  [/= ANY \(ARRAY\((SELECT (?:[^()]|\([^()]*\))*)\)\)/g, 'IN ($1)'],
  [/ COLLATE "C"/g, ''],
  [/ FOR UPDATE( OF \w+)?( SKIP LOCKED)?/g, ''],
  [/\barray_to_json\(([\w.]+)\)/g, '$1'],
  [/\bunnest\((\?\d+)\) (\w+)\(value\)/g, 'json_each($1) $2'],
  [/\bunnest\(([\w.]+)\) WITH ORDINALITY (\w+)\(value, n\)/g, 'json_each($1) $2'],
  [/\((\w+)\.n - 1\)/g, '$1.key'],
  [/\(array_position\(([\w.]+), ([\w.]+)\) - 1\)/g, '(SELECT key FROM json_each($1) WHERE value = $2)'],
  // An overlap of lists only names an index that SQLite does not have.
  [/\bAND \S+ && \?\d+\s+/g, ''],
  [/'\[' \|\| array_to_string\((\w+), ','\) \|\| '\]'/g, '$1'],
  [/\bstarts_with\((\w+), (\?\d+)\)/g, 'instr($1, $2) = 1'],
  [/\bstrpos\(/g, 'instr('],
  [/\bjson_array_elements\(/g, 'json_each('],
  [/\bgreatest\(/g, 'max('],
]

const texts = new Map<string, string>()

/** Translates a statement of both stores to SQLite. */
function inSqlite(sql: string): string {
  let text = texts.get(sql)
  if (text === undefined) {
    text = OTHERWISE.reduce((words, [theirs, ours]) => words.replace(theirs, ours), sql)
    texts.set(sql, text)
  }
  return text
}

/** The connection, for statements of both stores. */
export function sharedSql(db: SqliteConnection): Sql {
  return {
    all: (sql, ...values) => db.all(inSqlite(sql), ...values.map(bound)),
    get: (sql, ...values) => db.get(inSqlite(sql), ...values.map(bound)),
    run: (sql, ...values) => db.run(inSqlite(sql), ...values.map(bound)),
  }
}

function bound(value: SqlValue): SQLInputValue {
  if (typeof value === 'boolean') return value ? 1 : 0
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
}
