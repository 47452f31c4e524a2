import type { JobView } from './job-view.ts'
import type { OverrideView } from './override-view.ts'

/** The reason why a job waits, as data and in words. */
export interface JobExplanation {
  readonly job: JobView
  /** The job was stored without its task's code. It waits until an engine that lists the task resolves its limits. */
  readonly unresolved?: true
  /** Every bucket that must admit it. */
  readonly limits: readonly { readonly limit: string; readonly key: string | null; readonly weight: number }[]
  /** The key by which its jobs take turns with those of others; null: none. */
  readonly fairKey: string | null
  /** The number of starts in one turn of its lane. */
  readonly share: number
  /** The bucket that it waits for, and the backend that keeps it (absent: the store does); null: none. */
  readonly waitsOn: { readonly limit: string; readonly key: string | null; readonly backend?: string } | null
  /** The units that this bucket keeps for more urgent jobs; null: none. */
  readonly headroom: { readonly units: number; readonly priority: number } | null
  /** The guard of the budget that it waits for, in µs; absent: none. */
  readonly guardUs?: number
  /**
   * The bucket that guarantees it a share of the one that it waits for, and from when on (null: when one of its permits
   * returns). Absent: none does.
   */
  readonly guarantee?: { readonly limit: string; readonly key: string | null; readonly from: Date | null }
  /** For a job with a limit of scope `worker`: the wait of each live worker, and its end. */
  readonly eachWorker?: readonly {
    readonly worker: number
    readonly waitsOn: { readonly limit: string; readonly key: string | null } | null
    readonly until: Date | null
  }[]
  /** 1 for the next of its lane; null: it does not wait. */
  readonly position: number | null
  /**
   * 1 for the next of all jobs, of any queue, that wait for the job's only budget. Null: it needs several budgets, or
   * none.
   */
  readonly linePosition: number | null
  /** The time of its last state change. */
  readonly since: Date | null
  /** The next possible start of the head of its lane. */
  readonly until: Date | null
  /**
   * The expected start if nothing changes; for a scheduled or retryable job, the time at which it becomes available.
   */
  readonly expectedStart: Date | null
  /** Active overrides and pauses of that bucket, and behind them the pauses of its other limits and of its queue's. */
  readonly overrides: readonly OverrideView[]
  /** False: `expectedStart` is the earliest possible. Other limits, permits or a missing slot may delay it. */
  readonly exact: boolean
  /** The time at which it is discarded unless it has started; null: never. */
  readonly givenUpAt: Date | null
  /** Its queue is paused: none of its jobs starts. */
  readonly paused?: true
  /** A live process serves its queue, and the queue is not paused. */
  readonly served: boolean
  /** A live process that serves its queue lists its task. */
  readonly known: boolean
  readonly words: string
}

/** Says why a job waits, until when and behind whom. */
export function wordsFor(found: Omit<JobExplanation, 'words'>): string {
  const { job, expectedStart, givenUpAt, paused, served, known } = found
  const at = expectedStart?.toISOString()
  if (job.state === 'scheduled' && found.waitsOn)
    return `${waitInWords(found)}${pausesInWords(found)}${at ? ' It is rescheduled to its expected start.' : ''}`
  if (job.state === 'scheduled') return `The job is scheduled for ${at ?? 'later'}.`
  if (job.state === 'retryable') return `The job has failed and becomes available again at ${at ?? 'a later time'}.`
  if (job.state === 'pending' && job.flow) return `The job waits for other jobs of its flow ${job.flow.id}.`
  if (job.state === 'active' && at) return `The job was granted its budget ahead, and starts at ${at}.`
  if (job.state !== 'available') return `The job is ${job.state}.`
  const turns = `${headroomInWords(found)}${guardInWords(found)}${guaranteeInWords(found)}${turnsInWords(found)}`
  const idle = paused ? ` Queue ${job.queue} is paused.` : ` No live process serves queue ${job.queue}.`
  const unserved = served ? '' : idle
  const bound = givenUpAt ? ` It is discarded unless it starts by ${givenUpAt.toISOString()}.` : ''
  if (served && !known && !found.unresolved) return `The job waits: no live worker lists task ${job.task}.${bound}`
  return `${waitInWords(found)}${turns}${pausesInWords(found)}${unserved}${bound}`
}

/** The pauses of limits that the job has, but does not wait for yet. */
function pausesInWords({ overrides, waitsOn }: Pick<JobExplanation, 'overrides' | 'waitsOn'>): string {
  const others = overrides.filter((each) => each.kind === 'pause' && !concerns(each, waitsOn))
  return others.map((each) => ` Its limit ${nameOf(each)} is paused${pauseInWords(each)}.`).join('')
}

function concerns(pause: OverrideView, waitsOn: JobExplanation['waitsOn']): boolean {
  return waitsOn?.limit === pause.limit && (pause.key === null || pause.key === (waitsOn.key ?? ''))
}

/** By whom, why, and until when. */
function pauseInWords(pause: OverrideView): string {
  return `${authorInWords(pause)} until ${pause.until ? pause.until.toISOString() : 'it is resumed'}`
}

/** By whom a limit is paused, and why; empty: unknown. */
export function authorInWords({ by, reason }: Pick<OverrideView, 'by' | 'reason'>): string {
  return `${by === null ? '' : ` by ${by}`}${reason === null ? '' : ` (${reason})`}`
}

/** A bucket's name in words. */
function nameOf({ limit, key }: { readonly limit: string; readonly key: string | null }): string {
  return key === null || key === '' ? limit : `${limit} for ${key}`
}

function headroomInWords({ headroom }: Pick<JobExplanation, 'headroom'>): string {
  if (!headroom) return ''
  return ` The last ${headroom.units} of that budget are kept for jobs of priority ${headroom.priority} and above.`
}

function guardInWords({ guardUs }: Pick<JobExplanation, 'guardUs'>): string {
  return guardUs === undefined ? '' : ` That budget counts with a guard of ${guardUs / 1000} ms.`
}

function guaranteeInWords({ guarantee }: Pick<JobExplanation, 'guarantee'>): string {
  if (!guarantee) return ''
  const from = guarantee.from ? `from ${guarantee.from.toISOString()} on` : 'once one of its permits returns'
  return ` ${nameOf(guarantee)} guarantees it a share of that budget ${from}.`
}

function turnsInWords({ fairKey, share }: Pick<JobExplanation, 'fairKey' | 'share'>): string {
  const starts = share === 1 ? '' : `, ${share} starts each time`
  if (fairKey !== null) return ` The jobs of ${fairKey} take turns with those of others${starts}.`
  return share === 1 ? '' : ` Its lane takes turns with others${starts}.`
}

function waitInWords({
  job,
  unresolved,
  waitsOn,
  position,
  linePosition,
  until,
  expectedStart,
  exact,
  overrides,
  eachWorker,
}: Omit<JobExplanation, 'words'>): string {
  if (unresolved) return `The job waits until an engine that lists the task ${job.task} resolves its limits.`
  if (!waitsOn)
    return `The job waits for a free slot of queue ${job.queue}${position === null ? '' : `, at position ${position} of its lane`}.`
  const at = waitsOn.backend === undefined ? '' : ` at the backend ${waitsOn.backend}`
  const who = `${nameOf(waitsOn)}${at}`
  // Of the whole limit and of its key: the one that ends last.
  const [pause] = overrides
    .filter((each) => each.kind === 'pause' && concerns(each, waitsOn))
    .toSorted((a, b) => (b.until?.getTime() ?? Infinity) - (a.until?.getTime() ?? Infinity))
  if (pause)
    return `The job waits for the budget of ${who}, which is paused${pauseInWords(pause)}, at position ${position ?? 1}.`
  if (eachWorker) {
    const own = eachWorker.map(
      (each) => `${each.worker} ${each.until ? `at ${each.until.toISOString()}` : 'when a permit returns'}`,
    )
    return `The job waits for the budget of ${who}, of which each worker has its own: worker ${own.join(', worker ')}; at position ${position ?? 1} of its lane.`
  }
  const lane = until ? `whose next start is at ${until.toISOString()}` : 'until one of its permits returns'
  const start = expectedStart
    ? `; it should start ${exact ? 'at' : 'no sooner than'} ${expectedStart.toISOString()}`
    : ''
  return `The job waits for the budget of ${who}, ${lane}, at position ${linePosition ?? position ?? 1}${start}.`
}
