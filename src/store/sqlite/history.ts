/** So many of a job's failures are kept. */
const KEPT = 25

/** The history of a job, a JSON list, with one more failure: an SQL expression over a row of `jobs` whose `attempt` failed. */
export function withFailure(error: string, nowUs: string): string {
  const kept = `CASE WHEN json_array_length(errors) >= ${KEPT} THEN json_remove(errors, '$[0]') ELSE coalesce(errors, '[]') END`
  return `json_insert(${kept}, '$[#]', json_set(${error}, '$.attempt', attempt, '$.atUs', ${nowUs}))`
}
