/** The number of a job's failures that the store keeps. */
const KEPT = 25

/**
 * An SQL expression that adds a failure to a job's history, a JSON list. It uses a row of `jobs` whose `attempt`
 * failed.
 */
export function withFailure(error: string, nowUs: string): string {
  const kept = `CASE WHEN json_array_length(errors) >= ${KEPT} THEN json_remove(errors, '$[0]') ELSE coalesce(errors, '[]') END`
  return `json_insert(${kept}, '$[#]', json_set(${error}, '$.attempt', attempt, '$.atUs', ${nowUs}))`
}
