import type { SqliteConnection } from '../../database/sqlite.ts'
import { FLOW_STATES } from '../../jobs/flow.ts'
import type { EventWriting } from '../shared/sql.ts'
import { STATE } from '../shared/state.ts'

const { active, completed, cancelled, discarded } = STATE
const FAILED = 'NEW.errors IS NOT OLD.errors'
const JOB =
  'INSERT INTO events (item, name, queue, state, created, since, started, due, was, ready, attempt, failed, error)'
const NEW_JOB = 'NEW.id, NEW.task, NEW.queue, NEW.state, NEW.created, NEW.since, NEW.started, NEW.due'
const FLOW = 'INSERT INTO events (item, name, kind, was, state, jobs, created, error)'
const newFlow = (was: string): string =>
  `NEW.id, NEW.name, NEW.kind, ${was}, NEW.state, NEW.total, NEW.created, NEW.error`

/** The triggers that write changes, by name. */
const TRIGGERS: Readonly<Record<string, string>> = {
  job_stored: `AFTER INSERT ON jobs BEGIN ${JOB} VALUES (${NEW_JOB}, NULL, NEW.since, NEW.attempt, 0, NEW.error); END`,
  job_moved: `AFTER UPDATE OF state ON jobs
    WHEN OLD.state <> NEW.state AND (OLD.state = ${active} OR NEW.state IN (${[active, completed, cancelled, discarded].join(', ')}))
    BEGIN ${JOB} VALUES (${NEW_JOB}, OLD.state, OLD.since, CASE OLD.state WHEN ${active} THEN OLD.attempt ELSE NEW.attempt END,
      ${FAILED}, CASE WHEN ${FAILED} OR NEW.state = ${discarded} THEN NEW.error END); END`,
  // The end of a run deletes a job that is kept for no time. No other statement deletes an active one.
  job_deleted: `AFTER DELETE ON jobs WHEN OLD.state = ${active} BEGIN ${JOB}
      VALUES (OLD.id, OLD.task, OLD.queue, ${completed}, OLD.created, now_us(), OLD.started, NULL, ${active}, OLD.since, OLD.attempt, 0, NULL); END`,
  flow_stored: `AFTER INSERT ON flows BEGIN ${FLOW} VALUES (${newFlow('NULL')}); END`,
  flow_moved: `AFTER UPDATE OF state ON flows WHEN OLD.state <> NEW.state AND NEW.state <> ${FLOW_STATES.indexOf('running')}
    BEGIN ${FLOW} VALUES (${newFlow('OLD.state')}); END`,
  // A reader that lives deletes changes before that. Without one, until a worker prunes, so many are kept.
  events_bound: `AFTER INSERT ON events WHEN NEW.id % 1000 = 0 BEGIN
    UPDATE event_readers SET behind = 1 WHERE CAST(position AS INTEGER) < NEW.id - 20000;
    DELETE FROM events WHERE id <= NEW.id - 20000; END`,
}

const STORED = `SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND name IN (SELECT value FROM json_each(?))`

/** The writing of changes by triggers that exist while a reader lives. A position is the id of a change. */
export function eventWriting(db: SqliteConnection): EventWriting {
  /** How many of the triggers there are: an earlier build makes fewer. */
  const stored = (): number => (db.get<[number]>(STORED, JSON.stringify(Object.keys(TRIGGERS))) as [number])[0]
  return {
    position: `CAST(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0) AS TEXT)`,
    behind: (position) => `e.id > CAST(${position} AS INTEGER)`,
    lock: () => true,
    isOn: () => stored() > 0,
    write(on) {
      if (stored() === (on ? Object.keys(TRIGGERS).length : 0)) return true
      for (const [name, what] of Object.entries(TRIGGERS))
        db.exec(on ? `CREATE TRIGGER IF NOT EXISTS ${name} ${what}` : `DROP TRIGGER IF EXISTS ${name}`)
      return true
    },
  }
}
