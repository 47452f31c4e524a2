/** The jobs behind a refused head: which of them cannot start in time any more, and when the others will. */
import { loadStartUs, ruleStartUs } from '../limits/start-time.ts'
import { type EffectiveBucket, belowHeadroom } from '../limits/headroom.ts'
import { type Bucket, type Head, type HeadSource, type Lane, weightOf } from './lane.ts'
import { maxWaitUs, type Refusal, type Rejection } from './refusal.ts'
import { isBehind, type ScanCursor, type ScanShare } from './scan-cursor.ts'

/** A job that is rescheduled to its expected start: it keeps its place, and is shown as scheduled until then. */
export interface Reservation {
  readonly seq: number
  readonly startUs: number
}

/** What the scan came to. */
export interface LateScanResult {
  readonly late: readonly Rejection[]
  readonly reservations: readonly Reservation[]
  /** Jobs looked at. */
  readonly looked: number
  /** False: more jobs are to be scanned than were asked for. */
  readonly ended: boolean
}

const NOTHING: LateScanResult = { late: [], reservations: [], looked: 0, ended: true }

/** Jobs of one decision that are looked at behind heads; more would keep others from the store for too long. */
const SCANNED_AT_MOST = 1000

/** Looks behind the refused heads of one decision, at a bounded number of jobs. */
export class LateScan {
  readonly reservations: Reservation[] = []
  /** Jobs are left to be looked at: another decision must follow at once. */
  unfinished = false
  readonly #source: HeadSource
  readonly #rejections: Rejection[]
  readonly #nowUs: number
  #left = SCANNED_AT_MOST

  /** @param rejections takes up who comes too late. */
  constructor(source: HeadSource, rejections: Rejection[], nowUs: number) {
    this.#source = source
    this.#rejections = rejections
    this.#nowUs = nowUs
  }

  /** Lets the jobs behind a refused head learn what that means for them. False: the lane has to stay open, for more are left. */
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

/** Whether what was found out about a lane's jobs holds no more, so that it is to be looked at before its head may start. */
export function isStale(lane: Lane, nowUs: number): boolean {
  if (!lane.scanCursor) return maxWaitUs(lane.buckets) !== Infinity
  return !holds(lane.scanCursor, lane, lane.scanCursor.reserves, nowUs)
}

/**
 * Goes on through a lane behind its refused head, at most `count` jobs: those that cannot start within their `maxWait` are taken
 * out, and the others reserved if the refusal reschedules. By the lane's own jobs and its buckets' rules alone: other lanes and permits
 * can only make a start later, and who is late by them is found when the time is over.
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
    const { bucket, startUs } = startOf(lane, cursor, job, nowUs) ?? { bucket: refusal.bucket, startUs: nowUs }
    // What the head comes to has been decided; its wait list may hold it back longer than its own rules.
    if (job.seq !== head.seq && startUs > job.sinceUs + bound) {
      late.push({ head: job, refusal: { bucket, untilUs: startUs, behaviour: 'late' } })
      continue
    }
    add(cursor, lane, job, 1)
    if (cursor.reserves) reservations.push({ seq: job.seq, startUs: job.seq === head.seq ? refusal.untilUs : startUs })
  }
  forget(lane, late)
  return { late, reservations, looked: jobs.length, ended: jobs.length < count }
}

/** A job has left its lane from within a decision. */
export function leaveScan(lane: Lane, head: Head): void {
  if (lane.scanCursor && !isBehind(lane.scanCursor, head)) add(lane.scanCursor, lane, head, -1)
}

/** Whoever stands before the head has started or was refused in this very decision. */
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

/** Whether nothing has changed that would make scanned jobs late, or start at another time than they were told. */
function holds(cursor: ScanCursor, lane: Lane, reserves: boolean, nowUs: number): boolean {
  if (reserves && !cursor.reserves) return false
  return lane.buckets.every(({ revision, state }, i) => {
    const share = cursor.shares[i]
    const penalised = state.closedUntilUs > nowUs && state.closedUntilUs !== share?.closedUntilUs
    return share?.revision === revision && !penalised
  })
}

/** The latest of the instants at which the lane's buckets would let a job start behind those that were scanned. */
function startOf(lane: Lane, cursor: ScanCursor, job: Head, nowUs: number): { bucket: Bucket; startUs: number } | null {
  let found: { bucket: Bucket; startUs: number } | null = null
  for (const [i, bucket] of lane.buckets.entries()) {
    const share = cursor.shares[i]
    if (!share || !bucket.policy) continue
    // One below a headroom's priority meets a smaller bucket.
    const met = belowHeadroom({ policy: bucket.policy, state: bucket.state }, job.given, cursor.highest)
    const startUs = startIn(met, share, weightOf(job, i, bucket), nowUs)
    if (!found || startUs > found.startUs) found = { bucket, startUs }
  }
  return found
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

/** Jobs that are taken out of a lane are not its next. */
function forget(lane: Lane, late: readonly Rejection[]): void {
  if (late.length === 0) return
  for (const { head } of late) lane.gone.add(head.seq)
  lane.heads.splice(lane.next, Infinity, ...lane.heads.slice(lane.next).filter(({ seq }) => !lane.gone.has(seq)))
}
