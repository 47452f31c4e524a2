// Types of lanes.mjs, for the tests that check the store against it. Times are in milliseconds.
export interface ModelShare { readonly limit: string; readonly T?: number; readonly burst?: number; readonly concurrency?: number; readonly keys?: number }
export interface ModelLimit {
  readonly T?: number
  readonly burst?: number
  readonly concurrency?: number
  readonly mode?: 'shadow'
  readonly onLimit?: 'drop'
  readonly maxWait?: number
  readonly of?: ModelShare
}
export interface ModelBucket { readonly name: string; readonly limit: ModelLimit; tat: number; active: number; waiters: Set<ModelLane>; wakeAt: number }
export interface ModelLane { readonly id: string; readonly names: readonly string[]; readonly jobs: ModelJob[]; state: 'empty' | 'open' | 'waiting'; on: ModelBucket | null; turn: number }
export interface ModelJob { readonly id: number; readonly lane: ModelLane; readonly priority: number; readonly weight: number; readonly ms: number; readonly at: number; readonly started?: number; readonly end?: number }
export interface ModelStart { readonly t: number; readonly decided?: number; readonly lane: string; readonly names: readonly string[]; readonly id: number; readonly priority: number; readonly weight: number; readonly waited: number }
export declare class Model {
  constructor(options: { readonly limits: Readonly<Record<string, ModelLimit>>; readonly slots: number })
  now: number
  slots: number
  readonly limits: Readonly<Record<string, ModelLimit>>
  readonly running: Map<number, ModelJob>
  readonly buckets: Map<string, ModelBucket>
  readonly lanes: Map<string, ModelLane>
  readonly log: ModelStart[]
  readonly looks: number
  readonly moves: number
  turnNo: number
  bucket(name: string): ModelBucket
  enqueue(job: { readonly buckets: Iterable<string>; readonly priority?: number; readonly weight?: number; readonly ms?: number }): ModelJob
  cancel(job: ModelJob): void
  finish(job: ModelJob): void
  claim(): ModelJob[]
  deny(bucket: ModelBucket, weight: number): number | null
  charge(bucket: ModelBucket, weight: number): void
  rank(a: ModelLane, b: ModelLane): number
  nextWake(): number
  run(until: number, check?: (model: this) => void): void
}
