// The interface of every measured engine.

/** The payload of a job. */
export interface Payload {
  readonly n: number
  /** The tenant whose budget the job needs, if tenants have budgets. */
  readonly tenant?: string
  /** When it was enqueued, in µs of the machine's steady clock. */
  readonly atUs?: number
  /** Its start was booked already, by an engine that cannot hold it back itself. */
  readonly booked?: boolean
}

/** `ordinary`: as its documentation starts out, at this concurrency. `best`: as its documentation says it is fastest. */
export type Profile = 'ordinary' | 'best'

/** The backend and the settings of an engine. */
export interface Setting {
  readonly profile: Profile
  /** A unique name for this run: schema, prefix or queue. */
  readonly space: string
  readonly postgres: string
  readonly redis: string
  /** Jobs at once in one process. */
  readonly concurrency: number
  /** Starts per second and tenant; absent: no budgets. */
  readonly tenantPerSecond?: number
}

/** One process's connection to an engine. */
export interface Side {
  readonly enqueue: (payload: Payload) => Promise<unknown>
  readonly enqueueMany: (payloads: readonly Payload[]) => Promise<unknown>
  /** Starts to run jobs, and resolves once the engine is running. */
  readonly work: (run: (payload: Payload) => void) => Promise<void>
  readonly close: () => Promise<void>
}

/** One engine. */
export interface Engine {
  /** The engine's name and version. */
  readonly label: string
  /** In what its profiles differ from its defaults. */
  readonly settings: Readonly<Record<Profile, string>>
  /** How the engine limits each tenant, as closely as it can. */
  readonly budgets: string
  readonly open: (setting: Setting) => Promise<Side>
  /** Removes everything that a run has left. */
  readonly erase: (setting: Setting) => Promise<void>
}

/** Books the starts of one tenant's jobs one after another: what users write where an engine has no budgets per key. */
export class Booking {
  readonly #intervalUs: number
  readonly #nextUs = new Map<string, number>()

  constructor(perSecond: number) {
    this.#intervalUs = 1e6 / perSecond
  }

  /** By how many ms this tenant's next start has to be put off. */
  delayMs(tenant: string): number {
    const now = nowUs()
    const at = Math.max(now, this.#nextUs.get(tenant) ?? 0)
    this.#nextUs.set(tenant, at + this.#intervalUs)
    return (at - now) / 1000
  }
}

/** The machine's steady clock, the same for all its processes, µs. */
export function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n)
}
