// Writes the .sql files of each backend into one module, sql/embedded.ts, so that the package ships no SQL files. Run
// it after every change of one; test/store/sql.test.ts fails until then.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { END_OF_TIME_MS, END_OF_TIME_US } from '../src/base/instant.ts'
import { FLOW_STATES, MAX_PARENT_RESULTS_BYTES } from '../src/jobs/flow.ts'
import { MAX_ATTEMPTS } from '../src/jobs/retry-policy.ts'
import { MAX_FLOW_BYTES, MAX_FLOW_STEPS, MAX_UNREAD_SIGNALS } from '../src/jobs/workflow.ts'
import { LIFT } from '../src/policy/admission/guaranteed.ts'
import { MAX_UNITS } from '../src/policy/limits/normalise.ts'
import * as FIELDS from '../src/store/postgres/sql/fields.ts'
import { LANE, STATE } from '../src/store/shared/state.ts'
import { STOPPED, TOO_LARGE } from '../src/store/shared/stored-flows.ts'

// The hot path reads rows by their indexes, for any statistics. A connection keeps its plans. A plan made for a small
// table, or for a long list, would otherwise read the whole table from then on. For an empty analyzed table the planner
// would also prefer to materialise all rows, so that is off too.
const BY_INDEX = ['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin', 'material']
  .map((way) => `SET enable_${way} = off`)
  .concat('SET enable_sort = on', 'SET jit = off', 'SET plan_cache_mode = force_generic_plan')
  .join(' ')

// Rows that a list names are found by the list and joined to it by a hash. As `by_index` would join them, the table
// could come first, and a plan made while it was empty would read all of it from then on. Functions that one with this
// calls inherit it: they look rows up one by one, or set `by_index` themselves.
const BY_LIST = BY_INDEX.replace('enable_hashjoin = off', 'enable_hashjoin = on SET enable_nestloop = off')

/** Replaces `{{name}}` in the files. Planning sees the constant, so that partial indexes match. */
const CONSTANTS = {
  by_index: BY_INDEX,
  by_list: BY_LIST,
  // The first rows in an order: by the index of that order. Without this, a plan that was made while another index was
  // smaller reads and sorts all of that one from then on. Not for functions that read a list of ids in their order.
  by_order: BY_INDEX.replace('enable_sort = on', 'enable_sort = off'),
  // The same for the rest of a function that is `by_index`, and for those that it calls.
  in_order_from_here: `PERFORM set_config('enable_sort', 'off', true)`,
  // A lane l as a claim reads it.
  lane_as_read: `json_build_array(${FIELDS.LANE_READ.map((column) => `l.${column}`).join(', ')})`,
  // A subquery that the planner neither merges nor begins with: it looks up each row of the list before it.
  apart: 'OFFSET 0',
  // Joins are made as they are written, from a few rows on, by indexes.
  as_written: `SET join_collapse_limit = 1 ${BY_INDEX}`,
  ...named('job', STATE),
  ...named('lane', LANE),
  ...positions('flow', FLOW_STATES),
  ...Object.assign(
    {},
    ...Object.entries(FIELDS)
      .filter(([, fields]) => Array.isArray(fields))
      .map(([name, fields]) => positions(name.toLowerCase(), fields)),
  ),
  // Arrays of PostgreSQL begin at 1.
  ...positions('retention', ['completed', 'cancelled', 'discarded'], 1),
  guaranteed_lift: LIFT,
  kept_failures: 25,
  max_parent_results_bytes: MAX_PARENT_RESULTS_BYTES,
  max_attempts: MAX_ATTEMPTS,
  max_units: MAX_UNITS,
  max_exact: Number.MAX_SAFE_INTEGER,
  max_flow_steps: MAX_FLOW_STEPS,
  max_flow_bytes: MAX_FLOW_BYTES,
  max_unread_signals: MAX_UNREAD_SIGNALS,
  stopped: STOPPED,
  too_large: TOO_LARGE,
  end_of_time_us: END_OF_TIME_US,
  end_of_time: new Date(END_OF_TIME_MS).toISOString(),
}

function named(group, values) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [`${group}.${name}`, value]))
}

function positions(group, names, first = 0) {
  return Object.fromEntries(names.map((name, place) => [`${group}.${name}`, place + first]))
}

const folder = fileURLToPath(new URL('../src/store/', import.meta.url))

/** The text that is run: constants put in, and without the comments, which are for readers of the files. */
function textOf(path) {
  const text = readFileSync(folder + path, 'utf8').replaceAll(/^ *--.*\n/gm, '')
  return text.replaceAll(/\{\{([\w.]+)\}\}/g, (_, name) => {
    if (!(name in CONSTANTS)) throw new Error(`${path} names {{${name}}}, which scripts/embed-sql.mjs does not know`)
    return String(CONSTANTS[name])
  })
}

function list(from) {
  const paths = readdirSync(folder + from).toSorted()
  return `[\n${paths.map((path) => `  // ${path}\n  ${JSON.stringify(textOf(`${from}/${path}`))},\n`).join('')}]`
}

const HEAD = `// Written by scripts/embed-sql.mjs from the .sql files beside it; change those.

/**
 * The changes of tables in order; the store counts how many were applied. A shipped one is never edited: changes are
 * appended.
 */`

/** The module of each backend, by its path under src/store. */
export const MODULES = {
  'sqlite/sql/embedded.ts': () => `${HEAD}
export const MIGRATIONS: readonly string[] = ${list('sqlite/sql/migrations')}
`,
  'postgres/sql/embedded.ts': () => `${HEAD}
export const MIGRATIONS: readonly string[] = ${list('postgres/sql/migrations')}

/**
 * The functions of this version: put in place after any migration, so that each is written once. A migration drops a
 * function that takes or answers something else from then on.
 */
export const FUNCTIONS: string = ${list('postgres/sql/functions')}.join('\\n')

/** Gives a schema the clock that its callers set, as \`clock\` of the engine says: for tests. */
export const TEST_CLOCK: string = ${JSON.stringify(textOf('postgres/sql/test-clock.sql'))}
`,
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  for (const [path, text] of Object.entries(MODULES)) writeFileSync(folder + path, text())
