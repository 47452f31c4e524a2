import type { NewJob } from '../../jobs/job.ts'
import { laneKey } from '../../jobs/lane.ts'

/** The lane in which jobs without limits stand: their queue's open line. */
export function unlimitedLaneKey(queue: string): string {
  return laneKey(queue, [], null)
}

/** The limits of a job as they are stored; null for a job of the open line. */
export function usesText({ uses, fairKey }: Pick<NewJob, 'uses' | 'fairKey'>): string | null {
  return uses.length === 0 && fairKey === undefined ? null : JSON.stringify(uses.map(({ limit, key }) => [limit, key]))
}

/** The units that a job costs, in the order of its limits; null: one each. */
export function weightsText(uses: readonly { readonly weight: number }[]): string | null {
  return uses.some((use) => use.weight !== 1) ? JSON.stringify(uses.map((use) => use.weight)) : null
}
