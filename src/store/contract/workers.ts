/** Workers on record: remote ones by their names, and the processes of engines. */

/** The store's record of workers. */
export interface WorkerRecords {
  /**
   * Registers a remote worker under its name, or extends its record. It has no process here: its leases alone show when
   * it is lost.
   */
  registerWorker(worker: RemoteWorker): Promise<Registration>
  /** Every remote worker that was seen lately, and every live process. */
  workers(): Promise<WorkerRecord[]>
  /** Sets the directive of a remote worker; false: no worker has that name. */
  setDirective(name: string, directive: Directive): Promise<boolean>
  /** Deletes a remote worker; its runs stay leased. */
  deregisterWorker(name: string): Promise<boolean>
}

/** A remote worker, as it describes itself. */
export interface RemoteWorker {
  readonly name: string
  readonly queues: readonly string[]
  /** The tasks that it takes; null: any; absent: keeps the earlier value. */
  readonly tasks?: readonly string[] | null
  /** The time for which it counts as alive from now on. */
  readonly aliveUs: number
  /** The worker's description of itself as JSON text; null: keeps the earlier value. */
  readonly about: string | null
}

/** The directive of a remote worker: continue, take no more, or end. */
export type Directive = 'running' | 'quiet' | 'terminate'

/** The registration of a remote worker. */
export interface Registration {
  readonly worker: number
  readonly directive: Directive
}

/** A worker on record. */
export interface WorkerRecord {
  readonly worker: number
  /** Null: an engine's own worker. */
  readonly name: string | null
  readonly queues: readonly string[]
  /** The tasks whose jobs it takes; null: any. */
  readonly tasks: readonly string[] | null
  readonly directive: Directive
  readonly alive: boolean
  readonly aliveUntilUs: number
  readonly joinedUs: number
  readonly about: string | null
  /** The number of its running jobs. */
  readonly active: number
}
