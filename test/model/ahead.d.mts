// Types of ahead.mjs, and of what shadow.mjs and guarantees.mjs add below it.
import { Deputy } from './deputy.mjs'
import type { ModelBucket, ModelLane, ModelLimit } from './lanes.mjs'

/** The place of a lane in a line, whether the model or a check keeps the lane. */
export type Stands = Pick<ModelLane, 'names' | 'turn'> & { readonly jobs: readonly { readonly id: number; readonly priority: number; readonly weight: number }[] }
/** What a limit in shadow mode would have done with a start; the delay in ms. */
export interface ModelShadow { readonly bucket: string; readonly delay: number | null; readonly drops: boolean }

export declare class Ahead extends Deputy {
  constructor(options: { readonly limits: Readonly<Record<string, ModelLimit>>; readonly slots: number; readonly ahead?: number })
  clock: number | null
  told?: ModelShadow[]
  mayGo(lane: Stands): boolean
  lanesOf: (name: string) => number
  deny(bucket: ModelBucket, weight: number, lane?: Stands): number | null
  within(lane: Stands, common: ModelBucket): boolean
  rankIn(bucket: ModelBucket, a: Stands, b: Stands): number
}
