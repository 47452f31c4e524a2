import type { NewJob } from '../../jobs/job.ts'
import { laneKey } from '../../jobs/lane.ts'

/** The lane of jobs without limits: their queue's unlimited lane. */
export function unlimitedLaneKey(queue: string): string {
  return laneKey(queue, [], null)
}

/** The stored limits of a job; null for a job of the unlimited lane. */
export function usesText({ uses, fairKey }: Pick<NewJob, 'uses' | 'fairKey'>): string | null {
  return uses.length === 0 && fairKey === undefined ? null : JSON.stringify(uses.map(({ limit, key }) => [limit, key]))
}

/** The costs of a job, in the order of its limits; null: one each. */
export function weightsText(uses: readonly { readonly weight: number }[]): string | null {
  return uses.some((use) => use.weight !== 1) ? JSON.stringify(uses.map((use) => use.weight)) : null
}
