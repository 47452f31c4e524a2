import { laneKey } from '../../jobs/lane.ts'
import type { CostRow, PlaceQueries } from '../shared/wait-place.ts'
import type { Context } from './context.ts'

// A number is bound as a REAL, which JSON functions would read as a name.
const UNITS =
  'CASE WHEN ? = 1 AND attempt > 0 THEN 0 WHEN weights IS NULL THEN 1 ELSE weights ->> CAST(? AS INTEGER) END'
const OF_LANE = 'lane = ? AND state = 1 ORDER BY priority DESC, seq LIMIT ?'

type LaneRow = [id: number, turn: number, taken: number, share: number, head: number]

const TURN = 'id, turn, taken, share, head'
const FAIR_AT_MOST = 1000

/** The queries for the place of a job. */
export function placeQueries({ db }: Context): PlaceQueries {
  return {
    // Each queue has at most one lane without a fair key, so its name finds it without a search.
    contenders({ id: bucket, limit, key }) {
      const plain = db
        .all<[string]>('SELECT name FROM queues')
        .flatMap(([queue]) =>
          db.all<LaneRow>(`SELECT ${TURN} FROM lanes WHERE key = ?`, laneKey(queue, [{ limit, key }], null)),
        )
      const fair = db.all<LaneRow>(
        `SELECT ${TURN} FROM lanes WHERE buckets = ? AND fair IS NOT NULL LIMIT ${FAIR_AT_MOST}`,
        JSON.stringify([bucket]),
      )
      return [...plain, ...fair].map(([id, turn, taken, share, head]) => {
        const levels = db.all<[number, number]>(
          'SELECT priority, count(*) FROM jobs WHERE lane = ? AND state = 1 GROUP BY priority ORDER BY priority DESC',
          id,
        )
        return { id, turn, taken, share, head, levels: levels.map(([priority, count]) => ({ priority, count })) }
      })
    },
    costOf: ({ id, count, at }, free, keptUs) =>
      db.get<[...CostRow]>(
        `SELECT count(nullif(units, 0)), sum(units), min(nullif(units, 0)), max(units), max(given), min(due) FROM
         (SELECT ${UNITS} AS units, coalesce(asked, priority) AS given, due FROM jobs WHERE ${OF_LANE})
         WHERE due IS NULL OR due >= ?`,
        free ? 1 : 0,
        at,
        id,
        count,
        keptUs,
      ) as CostRow,
    jobsOf: ({ id, count, at }, free) =>
      db
        .all<[seq: number, priority: number, units: number]>(
          `SELECT seq, priority, ${UNITS} FROM jobs WHERE ${OF_LANE}`,
          free ? 1 : 0,
          at,
          id,
          count,
        )
        .map(([seq, priority, units]) => ({ seq, priority, units })),
  }
}
