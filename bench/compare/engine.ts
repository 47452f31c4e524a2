// The interface of every measured engine.

/** The payload of a job. */
export interface Payload {
  readonly n: number
  /** The key whose budget the job needs, if keys have budgets. */
  readonly key?: string
  /** When it was enqueued, in µs of the machine's steady clock. */
  readonly atUs?: number
  /** How long the handler takes, in ms; absent: no time. */
  readonly holdMs?: number
}

/** `ordinary`: as its documentation starts out, at this concurrency. `best`: as its documentation says it is fastest. */
export type Profile = 'ordinary' | 'best'

/** The starts that each key may make. `never`: a limit that never bites. */
export interface Budget {
  readonly kind: 'never' | 'strict' | 'every' | 'sliding'
  /** Starts per second and key. */
  readonly perSecond: number
}

/** The backend and the settings of an engine. */
export interface Setting {
  readonly profile: Profile
  /** A unique name for this run: schema, prefix, queue or file. */
  readonly space: string
  readonly postgres: string
  readonly redis: string
  /** A folder for files. */
  readonly folder: string
  /** Jobs at once in one process. 0: this process only enqueues. */
  readonly concurrency: number
  /** The budget of each key; absent: none. */
  readonly budget?: Budget
  /** Starts in one turn of a lane. */
  readonly share?: number
  /** Stripes of the queue. */
  readonly stripes?: number
  /** Another build of Sluice: the folder of its package. Absent: the sources here. */
  readonly build?: string
}

/** Durable workflows, on a side that was opened to work. */
export interface Flows {
  /** Runs a workflow of so many steps to its end. @returns when its first step began, µs of the steady clock */
  readonly run: (steps: number) => Promise<number>
  /** Has a workflow go on behind so many steps that it remembers. @returns ms until it has ended */
  readonly enter: (remembered: number) => Promise<number>
}

/** One process's connection to an engine. */
export interface Side {
  readonly enqueue: (payload: Payload) => Promise<unknown>
  readonly enqueueMany: (payloads: readonly Payload[]) => Promise<unknown>
  /** Enqueues and waits for the result; absent: the engine cannot. */
  readonly result?: (payload: Payload) => Promise<unknown>
  /** Starts to run jobs, and resolves once the engine is running. */
  readonly work: (run: (payload: Payload) => void | Promise<void>) => Promise<void>
  /** Whether a stored job has not ended yet. */
  readonly hasWork: () => Promise<boolean>
  /** Absent: the engine has no workflows. */
  readonly flows?: Flows
  readonly close: () => Promise<void>
}

/** One engine. */
export interface Engine {
  /** The engine's name and version. */
  readonly label: string
  /** In what its profiles differ from its defaults. */
  readonly settings: Readonly<Record<Profile, string>>
  /** How the engine limits each key, as closely as it can. */
  readonly budgets: string
  /** It works as soon as it is open. */
  readonly worksAtOnce?: true
  /** Jobs that it can be given in one measurement, as a share of the others'. */
  readonly pace?: number
  /** The same of workflows. */
  readonly flowPace?: number
  readonly open: (setting: Setting) => Promise<Side>
  /** Removes everything that a run has left. */
  readonly erase: (setting: Setting) => Promise<void>
}

/** The machine's steady clock, the same for all its processes, µs. */
export function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n)
}
