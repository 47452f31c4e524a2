import type { JobRecord } from '../../jobs/job.ts'
import type { Store } from '../../store/contract/store.ts'

/** The size of one of the demo's budgets. */
export interface Budget {
  readonly max: number
  /** The partner's window, µs. */
  readonly perUs: number
  /** The time by which Sluice's window is longer, in µs. */
  readonly guardUs: number
}

/** One start that was paid for. */
export interface Start {
  readonly job: string
  readonly tenant: string
  readonly urgent: boolean
  /** When the job began to wait: its arrival, or the kill that ended its first run. */
  readonly sinceUs: number
  readonly startedUs: number
}

/** One job as the store has it in the end. */
export interface RecordedJob {
  readonly id: string
  readonly tenant: string
  readonly urgent: boolean
  readonly createdUs: number
  /** Null when it never started. */
  readonly startedUs: number | null
  readonly completed: boolean
}

/** One call as the partner logged it. */
export interface RecordedCall {
  readonly tenant: string
  readonly job: string
  readonly arrivedUs: number
  /** When the handler that made the call began. */
  readonly beganUs: number
  readonly refused: boolean
}

/** A time without a worker, from the kill until the next worker claims. */
export interface Outage {
  readonly fromUs: number
  readonly untilUs: number
  /** The runs that were in flight at the kill, as the store had them then. */
  readonly inFlight: readonly RecordedJob[]
}

/** The data for the demo's checks. All times are in µs of the store's clock. */
export interface DemoRecord {
  readonly total: Budget
  readonly tenants: ReadonlyMap<string, Budget>
  /** When the first worker claimed. */
  readonly readyUs: number
  /** Every id that `enqueue` acknowledged. */
  readonly acknowledged: readonly string[]
  readonly jobs: readonly RecordedJob[]
  readonly calls: readonly RecordedCall[]
  readonly outages: readonly Outage[]
}

/** A bucket's window as Sluice counts it, µs. */
export function periodUs({ perUs, guardUs }: Budget): number {
  return perUs + guardUs
}

/** Every start that was paid for, in order: the last of each job, and those that ended with a killed worker. */
export function startsOf(record: DemoRecord): Start[] {
  const starts = new Map<string, Start>()
  const killedUs = new Map<string, number>()
  const add = ({ id, tenant, urgent, createdUs, startedUs }: RecordedJob): void => {
    if (startedUs === null) return
    const key = `${id} ${startedUs}`
    // A run that was interrupted and never done again is in both lists.
    if (!starts.has(key))
      starts.set(key, { job: id, tenant, urgent, sinceUs: killedUs.get(id) ?? createdUs, startedUs })
  }
  for (const { fromUs, inFlight } of record.outages) {
    for (const job of inFlight) add(job)
    for (const { id } of inFlight) killedUs.set(id, fromUs)
  }
  for (const job of record.jobs) add(job)
  return [...starts.values()].sort((a, b) => a.startedUs - b.startedUs)
}

const PAGE = 1000

/** All jobs of the store, or those that are active. */
export async function readJobs(store: Store, which: 'all' | 'active'): Promise<RecordedJob[]> {
  const jobs: RecordedJob[] = []
  let before = Number.MAX_SAFE_INTEGER
  for (;;) {
    const page = await store.list({ limit: PAGE, before, ...(which === 'active' ? { states: ['active'] } : {}) })
    jobs.push(...page.map(recorded))
    before = page.at(-1)?.seq ?? 0
    if (page.length < PAGE) return jobs
  }
}

function recorded({ id, input, priority, createdUs, startedUs, state }: JobRecord): RecordedJob {
  const { tenant } = JSON.parse(input) as { tenant: string }
  return { id, tenant, urgent: priority > 0, createdUs, startedUs, completed: state === 'completed' }
}
