import type { AdmissionSource } from './admission-source.ts'
import { isOfHandfuls } from './calls.ts'
import type { DropWatch } from './drop-watch.ts'
import { type Bucket, type Lane, NEVER_US } from './lane.ts'
import type { QueueService, WaitList } from './wait-list.ts'
import { YIELD_US, type Yielding } from './yielding.ts'

/** A decision at its end. */
interface Decided {
  readonly nowUs: number
  readonly source: AdmissionSource
  readonly yielding: Yielding
  readonly dropping: DropWatch
  /** When a bucket alone would admit a lane's head. @param atUs from when on; default: now */
  needOf(lane: Lane, bucket: Bucket, atUs?: number): number
  /** The first lane of a wait list that blocks others. */
  first(waitList: WaitList): Lane | null
  /** Whether a queue has slots here. */
  isHere(queue: number): boolean
  /** When the claimer should come for a lane that its bucket admits then; null: its queue has no slot here. */
  comesUs(lane: Lane, needUs: number): number | null
}

/** Sets the wake times of wait lists. @returns when the next of them may start here */
export function retime(waitLists: Iterable<WaitList>, decided: Decided): number {
  const { nowUs, source, yielding, dropping } = decided
  let wakeUs = NEVER_US
  const shadowed: WaitList[] = []
  for (const waitList of waitLists) {
    const { bucket } = waitList
    bucket.wakeAtUs = dropping.wakeAtUs(bucket, source)
    if (waitList.empty) continue
    const served = (queue: number): QueueService => source.served(queue)
    const waitListUs = wakeOf(waitList, served, (lane) => decided.needOf(lane, bucket))
    bucket.wakeAtUs = Math.min(bucket.wakeAtUs ?? NEVER_US, waitListUs)
    if (source.elsewhere.rests(bucket)) {
      bucket.wakeAtUs = Math.min(waitList.dueAtUs ?? nowUs, nowUs)
      continue
    }
    // The original due time shows how long other workers have had their chance.
    const { dueAtUs } = waitList
    const isOverdue = dueAtUs !== null && bucket.wakeAtUs <= nowUs
    if (isOverdue && bucket.granted === 0) bucket.wakeAtUs = Math.min(dueAtUs, bucket.wakeAtUs)
    const next = decided.first(waitList)
    if (!next) {
      shadowed.push(waitList)
      continue
    }
    const untilUs = yielding.untilUs(next)
    const comesUs = decided.comesUs(next, decided.needOf(next, bucket))
    if (comesUs === null) {
      wakeUs = Math.min(wakeUs, afterOthers(waitList, next, decided))
      continue
    }
    wakeUs = Math.min(wakeUs, untilUs ?? comesUs)
    if (untilUs !== undefined && isOverdue) bucket.wakeAtUs = Math.min(dueAtUs, bucket.wakeAtUs)
  }
  // The times of the lists in which their deputies wait are known only now.
  return Math.min(wakeUs, ...shadowed.map((waitList) => afterDeputy(waitList, decided)))
}

/** When the first lane of this claimer may go although the deputy of another worker shadows it. */
function afterDeputy(waitList: WaitList, decided: Decided): number {
  const { nowUs, source } = decided
  const own = waitList.first((queue) => decided.isHere(queue))
  if (!own) return NEVER_US
  let comesUs = NEVER_US
  waitList.holder(own, (deputy) => {
    const { on, queue } = deputy
    if (!on || source.served(queue) !== 'elsewhere') return false
    const atUs = Math.max(on.wakeAtUs ?? NEVER_US, decided.needOf(deputy, on, nowUs - YIELD_US)) + YIELD_US
    if (atUs > nowUs) comesUs = Math.min(comesUs, Math.max(atUs, decided.needOf(own, waitList.bucket)))
    return false
  })
  return comesUs
}

/** When the first lane of this claimer may go although that of another worker is before it. */
function afterOthers(waitList: WaitList, next: Lane, decided: Decided): number {
  const { bucket } = waitList
  const own = waitList.first((queue) => decided.isHere(queue))
  if (!own || bucket.wakeAtUs === null) return NEVER_US
  const dueUs = Math.max(bucket.wakeAtUs, decided.needOf(next, bucket, decided.nowUs - YIELD_US))
  return Math.max(dueUs + YIELD_US, decided.needOf(own, bucket))
}

/**
 * When any worker could serve a wait list. A process whose queue is full continues with the next queue, and only that
 * process knows. So the first lane of each queue counts. Queues without a live worker count only if there are no
 * others. @param needOf when the wait list's bucket alone would admit a lane's head
 */
function wakeOf(waitList: WaitList, served: (queue: number) => QueueService, needOf: (lane: Lane) => number): number {
  const isLive = (queue: number): boolean => served(queue) !== 'nowhere'
  // Only each process knows whether deputies of other queues shadow its lanes, so the earlier of both instants counts.
  const firsts = [...waitList.queues()].filter(isLive).flatMap((queue) => {
    const own = (each: number): boolean => each === queue
    return waitList.hasDeputies
      ? [waitList.first(own), waitList.first(own, null, ({ queue: of }) => isLive(of))]
      : [waitList.first(own)]
  })
  return earliest(firsts.some((lane) => lane !== null) ? firsts : [waitList.first(() => true)], needOf)
}

function earliest(lanes: readonly (Lane | null)[], needOf: (lane: Lane) => number): number {
  return Math.min(NEVER_US, ...lanes.map((lane) => (lane ? needOf(lane) : NEVER_US)))
}

/**
 * Whether a decision has changed the time of a wait list in which lanes of other workers' queues stand: they have to
 * learn it, unless all of them come at times of their own.
 */
export function wakesOthers(
  { waitLists, nowUs }: { readonly waitLists: ReadonlyMap<Bucket, WaitList>; readonly nowUs: number },
  source: AdmissionSource,
): boolean {
  for (const [{ granted, wakeAtUs }, waitList] of waitLists) {
    if (wakeAtUs === null || (granted === 0 && (wakeAtUs <= nowUs || wakeAtUs === waitList.dueAtUs))) continue
    if (isOfHandfuls(waitList, source)) continue
    for (const queue of waitList.queues()) if (source.served(queue) === 'elsewhere') return true
  }
  return false
}
