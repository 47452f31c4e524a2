/** Workers on record: remote ones by their names, and the processes of engines. */

/** What a store keeps of workers. */
export interface WorkerRecords {
  /** Registers a remote worker under its name, or extends its record. It has no process here: its leases alone say when it is lost. */
  registerWorker(worker: RemoteWorker): Promise<Registration>
  /** Every remote worker that was heard of lately, and every process at work. */
  workers(): Promise<WorkerRecord[]>
  /** Says what a remote worker is to do from now on; false when there is none of that name. */
  setDirective(name: string, directive: Directive): Promise<boolean>
  /** Forgets a remote worker; what it runs stays leased. */
  deregisterWorker(name: string): Promise<boolean>
}

/** A remote worker, as it says of itself. */
export interface RemoteWorker {
  readonly name: string
  readonly queues: readonly string[]
  /** The tasks that it asks for; null: any; absent: what was told before stays. */
  readonly tasks?: readonly string[] | null
  /** For how long it counts as alive from now on. */
  readonly aliveUs: number
  /** JSON text of what it tells of itself; null: what was told before stays. */
  readonly about: string | null
}

/** What a remote worker is told to do: go on, take no more, or end. */
export type Directive = 'running' | 'quiet' | 'terminate'

/** The registration of a remote worker. */
export interface Registration {
  readonly worker: number
  readonly directive: Directive
}

/** A worker on record. */
export interface WorkerRecord {
  readonly worker: number
  /** Null: an engine's own. */
  readonly name: string | null
  readonly queues: readonly string[]
  /** The tasks that it takes jobs of; null: any. */
  readonly tasks: readonly string[] | null
  readonly directive: Directive
  readonly alive: boolean
  readonly aliveUntilUs: number
  readonly joinedUs: number
  readonly about: string | null
  /** Jobs that it runs. */
  readonly active: number
}
