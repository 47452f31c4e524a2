/** The jobs behind a refused head: which of them can no longer start in time, and when the others start. */
import { loadStartUs, ruleStartUs } from '../limits/start-time.ts'
import { hasGuaranteeIn } from './guaranteed.ts'
import { type EffectiveBucket, belowHeadroom } from '../limits/headroom.ts'
import { type Bucket, type Head, type HeadSource, type Lane, weightOf } from './lane.ts'
import { maxWaitUs, type Refusal, type Rejection } from './refusal.ts'
import { isBehind, type ScanCursor, type ScanShare } from './scan-cursor.ts'

/** A job that is rescheduled to its expected start. It keeps its place and is shown as scheduled until then. */
export interface Reservation {
  readonly seq: number
  readonly startUs: number
}

/** The result of a scan. */
export interface LateScanResult {
  readonly late: readonly Rejection[]
  readonly reservations: readonly Reservation[]
  /** The number of jobs scanned. */
  readonly looked: number
  /** False: more jobs than `count` remain to be scanned. */
  readonly ended: boolean
}

const NOTHING: LateScanResult = { late: [], reservations: [], looked: 0, ended: true }

/** The most jobs that one decision scans behind heads. More would block the store for too long. */
const SCANNED_AT_MOST = 1000

/** Scans a bounded number of jobs behind the refused heads of one decision. */
export class LateScan {
  readonly reservations: Reservation[] = []
  /** Jobs remain to be scanned: another decision must follow at once. */
  unfinished = false
  readonly #source: HeadSource
  readonly #rejections: Rejection[]
  readonly #nowUs: number
  #left = SCANNED_AT_MOST

  /** @param rejections receives the jobs that are too late. */
  constructor(source: HeadSource, rejections: Rejection[], nowUs: number) {
    this.#source = source
    this.#rejections = rejections
    this.#nowUs = nowUs
  }

  /** Scans the jobs behind a refused head. False: more remain, so the lane must stay open. */
  scan(lane: Lane, refusal: Refusal): boolean {
    if (refusal.behaviour !== 'reschedule' && maxWaitUs(lane.buckets) === Infinity) return true
    const { late, reservations, looked, ended } = scanLate(lane, refusal, this.#source, this.#left, this.#nowUs)
    this.#left -= looked
    this.#rejections.push(...late)
    this.reservations.push(...reservations)
    this.unfinished ||= !ended
    return ended
  }
}

/** Whether a lane's scan is outdated, so that a claim must examine it before its head may start. */
export function isStale(lane: Lane, nowUs: number): boolean {
  if (!lane.scanCursor) return maxWaitUs(lane.buckets) !== Infinity
  return !holds(lane.scanCursor, lane, lane.scanCursor.reserves, nowUs)
}

/**
 * Scans at most `count` jobs behind a lane's refused head. It removes jobs that cannot start within their `maxWait`,
 * and reserves the others if the refusal reschedules. The scan uses only the lane's own jobs and its buckets' rules.
 * Other lanes and permits can only delay a start; a job that they make late is found when its time is over.
 */
export function scanLate(
  lane: Lane,
  refusal: Refusal,
  source: HeadSource,
  count: number,
  nowUs: number,
): LateScanResult {
  const reserves = refusal.behaviour === 'reschedule'
  const head = lane.heads[lane.next]
  if (!head) return NOTHING
  const cursor =
    lane.scanCursor && holds(lane.scanCursor, lane, reserves, nowUs) ? lane.scanCursor : newCursor(lane, head, reserves)
  lane.scanCursor = cursor
  if (count <= 0) return { ...NOTHING, ended: false }
  const jobs = source.behind(lane, cursor.priority, cursor.seq, count)
  const bound = maxWaitUs(lane.buckets)
  const late: Rejection[] = []
  const reservations: Reservation[] = []
  for (const job of jobs) {
    cursor.priority = job.priority
    cursor.seq = job.seq
    cursor.highest = Math.max(cursor.highest, job.given)
    if (lane.gone.has(job.seq)) continue
    const found = startOf(lane, cursor, job, nowUs)
    const { bucket, startUs, soonestUs } = found ?? { bucket: refusal.bucket, startUs: nowUs, soonestUs: nowUs }
    // The head's own outcome is decided already. Its wait list may delay it beyond its own rules.
    if (job.seq !== head.seq && soonestUs > job.sinceUs + bound) {
      late.push({ head: job, refusal: { bucket, untilUs: startUs, behaviour: 'late' } })
      continue
    }
    add(cursor, lane, job, 1)
    if (cursor.reserves) reservations.push({ seq: job.seq, startUs: job.seq === head.seq ? refusal.untilUs : startUs })
  }
  forget(lane, late)
  return { late, reservations, looked: jobs.length, ended: jobs.length < count }
}

/** Updates the scan cursor when a decision takes a job out of its lane. */
export function leaveScan(lane: Lane, head: Head): void {
  if (lane.scanCursor && !isBehind(lane.scanCursor, head)) add(lane.scanCursor, lane, head, -1)
}

/** Creates a cursor at the head. All jobs before the head started or were refused in this decision. */
function newCursor(lane: Lane, head: Head, reserves: boolean): ScanCursor {
  const shares = lane.buckets.map(({ revision, state }) => ({
    revision,
    closedUntilUs: state.closedUntilUs,
    starts: 0,
    units: 0,
    weight: 0,
  }))
  return { priority: head.priority, seq: head.seq - 1, count: 0, reserves, highest: head.given, shares }
}

/** Whether the scanned jobs still start in time, and at the instants reported for them. */
function holds(cursor: ScanCursor, lane: Lane, reserves: boolean, nowUs: number): boolean {
  if (reserves && !cursor.reserves) return false
  return lane.buckets.every(({ revision, state }, i) => {
    const share = cursor.shares[i]
    const penalised = state.closedUntilUs > nowUs && state.closedUntilUs !== share?.closedUntilUs
    return share?.revision === revision && !penalised
  })
}

/** A start by the rules of a lane's buckets. */
interface Start {
  /** The one that admits it last. */
  readonly bucket: Bucket
  readonly startUs: number
  /** The same, but for buckets whose rules change before it: those may admit it from then on. */
  readonly soonestUs: number
}

/** The latest instant at which the lane's buckets admit a job behind the scanned ones. */
function startOf(lane: Lane, cursor: ScanCursor, job: Head, nowUs: number): Start | null {
  let last: { bucket: Bucket; startUs: number } | null = null
  let soonestUs = 0
  for (const [i, bucket] of lane.buckets.entries()) {
    const share = cursor.shares[i]
    if (!share || !bucket.policy) continue
    // A job below a headroom's priority sees a smaller bucket. One with a guarantee may start within it by then.
    const policy = hasGuaranteeIn(lane, bucket) ? { ...bucket.policy, reserve: 0 } : bucket.policy
    const effective = belowHeadroom({ policy, state: bucket.state }, job.given, cursor.highest)
    const startUs = startIn(effective, share, weightOf(job, i, bucket), nowUs)
    if (!last || startUs > last.startUs) last = { bucket, startUs }
    soonestUs = Math.max(soonestUs, Math.min(startUs, bucket.endsUs ?? Infinity))
  }
  return last && { ...last, soonestUs }
}

function startIn(
  { policy, state }: EffectiveBucket,
  { starts, units, weight: even }: ScanShare,
  weight: number,
  nowUs: number,
): number {
  if (weight === 0) return Math.max(nowUs, state.closedUntilUs)
  if (starts === 0 || even === weight) return ruleStartUs(policy, state, nowUs, { count: starts + 1, weight })
  return loadStartUs(policy, state, nowUs, { starts: starts + 1, units: units + weight, last: weight })
}

function add(cursor: ScanCursor, lane: Lane, job: Head, sign: 1 | -1): void {
  cursor.count += sign
  for (const [i, bucket] of lane.buckets.entries()) {
    const share = cursor.shares[i]
    const weight = weightOf(job, i, bucket)
    if (!share || weight === 0) continue
    if (sign === 1) share.weight = share.starts === 0 || share.weight === weight ? weight : 0
    share.starts = Math.max(0, share.starts + sign)
    share.units = Math.max(0, share.units + sign * weight)
  }
}

/** Jobs removed from a lane cannot be its next head. */
function forget(lane: Lane, late: readonly Rejection[]): void {
  if (late.length === 0) return
  for (const { head } of late) lane.gone.add(head.seq)
  lane.heads.splice(lane.next, Infinity, ...lane.heads.slice(lane.next).filter(({ seq }) => !lane.gone.has(seq)))
}
