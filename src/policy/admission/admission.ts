import {
  type Bucket,
  drops,
  type Head,
  headOf,
  type Lane,
  loadHeads,
  NEVER_US,
  placeAs,
  unlistedBefore,
} from './lane.ts'
import { type AdmissionSource, needOf } from './admission-source.ts'
import { Ahead, HEADS_AHEAD } from './ahead.ts'
import { GuaranteeWatch } from './guarantee-watch.ts'
import { isGuaranteed, isWithin, levelOfHead, lift, opens, rankIn } from './guaranteed.ts'
import { DropWatch } from './drop-watch.ts'
import { type Candidate, candidateOf, WaitList } from './wait-list.ts'
import { type Charge, chargesOf, type Grant, pay, type QueueSlots } from './queue-slots.ts'
import { isFull, REJECTED_AT_ONCE, type Refusal, refusalOf, type Rejection } from './refusal.ts'
import { retime } from './retime.ts'
import { isStale, leaveScan, LateScan } from './late-scan.ts'
import { endsTurn } from './turn.ts'
import { rank, TurnOrder } from './turn-order.ts'
import { Yielding } from './yielding.ts'

/** The most lanes of a wait list that one decision parks. */
const PARKED_AT_MOST = 256

/**
 * Decides which waiting jobs start at one instant: all buckets of a job must admit it, or none is charged. Candidates,
 * by priority and then by turn: open lanes, the first lane of each due wait list, unlimited lanes. A refused lane waits
 * on the bucket that refuses it longest. A newcomer waits behind lanes that it does not outrank.
 */
export class Admission {
  /** The clock; while it looks ahead, the instant that it decides for. */
  nowUs: number
  readonly grants: Grant[] = []
  readonly rejections: Rejection[] = []
  /** Scans the jobs behind refused heads. */
  readonly lateScan: LateScan
  readonly waitLists: Map<Bucket, WaitList> = new Map()
  /** The lanes examined, and those of them that stay open as they were, for other workers. */
  looks = 0
  kept = 0
  /** Lanes remain to be parked or dropped: another decision must follow at once. */
  unfinished = false
  parked = 0
  readonly #yielding: Yielding
  /** The last turn given. */
  turn: number
  /** The earliest start here outside the wait lists, in a sleeping queue. */
  #wakeUs = NEVER_US
  readonly #dropping: DropWatch
  readonly #guarantees = new GuaranteeWatch()
  readonly #source: AdmissionSource
  readonly #shares = new Map<number, QueueSlots>()
  readonly #order = new TurnOrder<Candidate>()
  /** Candidates that wait for the next read: lanes that were not read may come before them. */
  readonly #held: Candidate[] = []
  /** The number of offered lanes and wait lists, which share the slots. */
  #lanes = 0
  #ahead: Ahead | null = null

  constructor(nowUs: number, turn: number, shares: readonly QueueSlots[], source: AdmissionSource) {
    this.#yielding = new Yielding(source, this.waitLists)
    this.nowUs = nowUs
    this.turn = turn
    this.#source = source
    this.#dropping = new DropWatch(nowUs)
    this.lateScan = new LateScan(source, this.rejections, nowUs)
    for (const share of shares) this.#shares.set(share.queue, share).set(share.ownQueue, share)
  }

  addLane(lane: Lane): void {
    this.#lanes++
    this.#offer(lane)
  }

  #offer(lane: Lane, waitList: WaitList | null = null): void {
    if (waitList) waitList.queued = true
    this.#order.push(this.#guarantees.noted(candidateOf(lane, waitList)))
  }

  /** Adds a bucket whose wait list is due. */
  addDue(bucket: Bucket): void {
    this.#lanes++
    this.#dropping.note(bucket)
    this.#guarantees.look(bucket, this.#source, this.nowUs, this.#lift)
    this.#offerFirst(this.#waitList(bucket))
  }

  /** Puts a lane before all in its wait list: it is within its guarantee there. */
  readonly #lift = (lane: Lane): void => {
    if (!lane.on || isGuaranteed(lane)) return
    lift(lane)
    this.#waitList(lane.on).join(lane)
    this.#offerFirst(this.#waitList(lane.on))
  }

  /** Grants until slots, budgets or jobs run out, and up to the last lane that was read of each queue. */
  decide(): void {
    for (const candidate of this.#held.splice(0)) this.#order.push(candidate)
    // A queue that falls asleep here lets other queues' wait lists offer their next lane, so the loop runs again.
    do {
      this.#decideLanes()
      for (const share of this.#shares.values()) while (share.unlimitedBefore(-Infinity)) this.#startUnlimited(share)
      if (!this.#order.top && this.#dropping.look(this.#source, this.#dropFirst, this.rejections))
        this.unfinished = true
    } while (this.#order.top)
  }

  /**
   * Grants further starts at the instants up to `untilUs` at which the first lane of a wait list may go, each charged at
   * its own. Instants only grow, so turns and priorities order these starts as if each were decided in its time.
   */
  lookAhead(untilUs: number): void {
    const ahead = (this.#ahead = new Ahead(this.nowUs, untilUs))
    for (const waitList of this.waitLists.values()) this.#offerFirst(waitList)
    for (let due = ahead.next(); due; due = ahead.next()) {
      this.nowUs = due.atUs
      for (const waitList of due.waitLists) this.#offerFirst(waitList)
      this.#decideLanes()
    }
    this.nowUs = ahead.clockUs
  }

  /** Drops the first job of a lane if a limit refuses and drops it. */
  readonly #dropFirst = (lane: Lane): void => {
    const head = this.#headOf(lane)
    const refusal = head && this.#refusalOf(lane, head)
    if (head && refusal?.behaviour === 'drop') this.#reject(lane, { head, refusal })
  }

  #decideLanes(): void {
    for (let candidate = this.#order.top; candidate; candidate = this.#order.top) {
      const share = this.#shares.get(candidate.lane.queue)
      if (share?.unlimitedBefore(candidate.priority)) this.#startUnlimited(share)
      else {
        this.#order.pop()
        if (share?.isBehindUnread(candidate)) this.#held.push(candidate)
        else if (!this.#guarantees.hadLook(candidate)) this.#consider(candidate)
      }
    }
  }

  /** Sets the wake time of every changed wait list. @returns when the next of them may start here */
  retime(): number {
    this.#source.elsewhere.undo(this.#reopen)
    const parts = { nowUs: this.nowUs, source: this.#source, yielding: this.#yielding, dropping: this.#dropping }
    const listsUs = retime(this.waitLists.values(), {
      ...parts,
      needOf: this.#needOf,
      first: this.#first,
      isHere: (queue) => this.#slots(queue) > 0,
      comesUs: (lane, needUs) => {
        const share = this.#shares.get(lane.queue)
        if (!share || share.slots === 0) return null
        return this.#ahead?.wakeUs(lane, this.#headOf(lane), share, needUs) ?? needUs
      },
    })
    this.#guarantees.retime(this.waitLists.keys(), this.#source, this.nowUs)
    return Math.min(this.#wakeUs, listsUs)
  }

  #waitList(bucket: Bucket): WaitList {
    let waitList = this.waitLists.get(bucket)
    if (!waitList) this.waitLists.set(bucket, (waitList = new WaitList(bucket, this.#source, this.#sinks)))
    return waitList
  }

  readonly #sinks = (lane: Lane): boolean => this.#guarantees.sinks(lane, this.nowUs, this.#headOf)

  readonly #slots = (queue: number): number => this.#shares.get(queue)?.slots ?? 0

  /** Offers the first lane of a due wait list if it can start here and the bucket itself would admit it. */
  #offerFirst(waitList: WaitList): void {
    if (waitList.queued || this.#source.elsewhere.rests(waitList.bucket)) return
    const lane = this.#first(waitList)
    if (!lane) return
    const needUs = this.#needOf(lane, waitList.bucket)
    waitList.bucket.wakeAtUs = needUs
    if (this.#ahead?.defers(waitList, needUs)) return
    const unlisted = this.#slots(lane.queue) > 0 && !this.#headOf(lane) ? this.#source.unlisted?.(lane) : null
    if (unlisted && this.#yielding.ofFirst(lane, unlisted, waitList.dueAtUs, needUs, this.nowUs)) return
    if (unlisted && this.parked >= PARKED_AT_MOST) return void (this.unfinished = true)
    if (this.#slots(lane.queue) === 0 || (needUs > this.nowUs && !isStale(lane, this.nowUs))) return
    this.#offer(lane, waitList)
  }

  /** A queue that is full here and that no other worker serves, or not in time, does not block others. */
  readonly #first = (waitList: WaitList, except: Lane | null = null): Lane | null =>
    this.#yielding.first(waitList, except, { nowUs: this.nowUs, slots: this.#slots, needOf: this.#needOf })

  #consider(candidate: Candidate, passed: readonly Lane[] = []): void {
    const { lane, waitList } = candidate
    if (waitList) {
      waitList.queued = false
      if (this.#first(waitList) !== lane || lane.turn !== candidate.turn) return this.#offerFirst(waitList)
    } else if (lane.state !== 'open' || lane.turn !== candidate.turn || lane.head !== candidate.head) return
    const share = this.#shares.get(lane.queue)
    if (share && share.slots > 0) {
      const first = this.#guarantees.before(lane, passed, this.nowUs, this.#headOf)
      if (first) this.#offer(lane, waitList)
      if (first) return this.#consider(first, [...passed, lane])
      const priority = share.buckets.length === 0 ? null : (this.#headOf(lane)?.given ?? null)
      if (this.#ahead || !this.#queueIsClosed(share, priority)) return this.#look(lane, waitList, share)
    }
    // The lane's queue fell asleep or filled up meanwhile. Offer the next lane whose queue can start a job.
    if (waitList) this.#offerFirst(waitList)
  }

  #look(lane: Lane, waitList: WaitList | null, share: QueueSlots): void {
    this.looks++
    const head = this.#headOf(lane)
    if (!head) return this.#close(lane)
    if (head.priority !== levelOfHead(lane)) return this.#rerank(lane, head)
    if (this.#ahead && (this.#source.unlisted?.(lane) || !this.#ahead.admits(lane, head, share, this.nowUs)))
      return this.#leave(lane, waitList, head, this.#ahead)
    let refusal = this.#refusalOf(lane, head)
    if (!refusal) {
      const unasked = this.#yields(lane, head) ? null : this.#start(lane, head, share)
      if (!unasked) return
      refusal = { bucket: unasked, untilUs: this.nowUs, behaviour: 'wait' }
    }
    if (refusal.behaviour === 'drop' || refusal.behaviour === 'late') return this.#reject(lane, { head, refusal })
    if (!this.lateScan.scan(lane, refusal)) return this.#open(lane)
    const unlisted = unlistedBefore(this.#source, lane, head)
    const other = unlisted && this.#refusalOf(lane, unlisted)
    // The lane stays open for the worker that may start its first job now.
    if (unlisted && !other && lane.state === 'open') this.kept++
    if (unlisted && !other) return this.#open(lane)
    if (other && other.untilUs < refusal.untilUs) refusal = other
    this.#wait(lane, refusal)
    if (unlisted) placeAs(lane, unlisted)
    if (!waitList || waitList.bucket === refusal.bucket) return
    waitList.addDeputy(lane)
    this.#offerFirst(waitList)
  }

  /** Leaves a lane to its own time. One that is in no wait list joins that of the bucket that refuses it now. */
  #leave(lane: Lane, waitList: WaitList | null, head: Head, { clockUs, leave }: Ahead): void {
    if (waitList) return leave(waitList)
    const [bucket] = lane.buckets
    const refusal = refusalOf(lane, head, clockUs, () => null)
    if (bucket) this.#wait(lane, refusal ?? { bucket, untilUs: clockUs, behaviour: 'wait' })
  }

  /** Until when an earlier lane in the bucket's wait list blocks this one; null: no lane does. */
  #aheadUntil(bucket: Bucket, lane: Lane, head: Head): number | null {
    if (bucket.wakeAtUs === null) return null
    const ahead = this.#first(this.#waitList(bucket), lane)
    if (!ahead || rank(ahead, rankIn(lane, head, bucket, this.nowUs)) >= 0) return null
    if (bucket.wakeAtUs > this.nowUs) return bucket.wakeAtUs
    const untilUs = Math.max(this.#needOf(ahead, bucket), this.nowUs)
    this.#offerFirst(this.#waitList(bucket))
    return untilUs
  }

  readonly #needOf = (lane: Lane, bucket: Bucket, atUs: number = this.nowUs): number =>
    needOf(this.#source, lane, this.#headOf(lane), bucket, atUs)

  #refusalOf(lane: Lane, head: Head): Refusal | null {
    return refusalOf(lane, head, this.nowUs, (bucket) => this.#aheadUntil(bucket, lane, head), this.#source.elsewhere)
  }

  /** Whether another worker still has precedence for a job ahead of this head. The lane keeps its place. */
  #yields(lane: Lane, head: Head): boolean {
    const untilUs = this.#yielding.ofHead(lane, head, this.nowUs)
    if (untilUs === null) return false
    this.#wakeUs = Math.min(this.#wakeUs, untilUs)
    const [bucket] = lane.buckets
    if (bucket && lane.state === 'open') this.#wait(lane, { bucket, untilUs: this.nowUs, behaviour: 'wait' })
    return true
  }

  /** Starts a head, tentatively if a backend has yet to be paid. A bucket: its backend is not to be asked now. */
  #start(lane: Lane, head: Head, share: QueueSlots): Bucket | null {
    const charges = chargesOf(lane, head, share)
    const begun = this.#source.elsewhere.begin(lane, head, share, charges)
    if (typeof begun === 'object') return begun
    if (begun === 'paid') this.#grant(share, lane, head, charges)
    if (begun === 'paid') leaveScan(lane, head)
    share.unlimitedNext = true
    if (endsTurn(lane)) lane.turn = ++this.turn
    this.#shift(lane)
    return null
  }

  /** The number is bounded: a lane with more to reject stays open for the next decision. */
  #reject(lane: Lane, rejection: Rejection): void {
    if (isFull(this.rejections)) return this.#open(lane)
    this.rejections.push(rejection)
    leaveScan(lane, rejection.head)
    if (lane.next + 1 >= lane.heads.length) loadHeads(lane, this.#source, REJECTED_AT_ONCE)
    this.#shift(lane)
  }

  /** Removes a head that started or was rejected. The lane opens for its next job, or is empty. */
  #shift(lane: Lane): void {
    lane.next++
    this.#open(lane)
    const head = this.#headOf(lane)
    return head ? this.#rerank(lane, head) : this.#close(lane)
  }

  /** Ranks a lane by its present head: of a view, other workers may have taken jobs. */
  #rerank(lane: Lane, head: Head): void {
    this.#open(lane)
    placeAs(lane, head)
    this.#offer(lane)
  }

  #wait(lane: Lane, { bucket, untilUs }: Refusal): void {
    if (lane.on !== bucket) {
      this.#open(lane)
      lane.on = bucket
      this.#waitList(bucket).join(lane)
    }
    lane.state = 'waiting'
    lane.changed = true
    if (isWithin(lane, lane.heads[lane.next] ?? null, bucket, this.nowUs)) this.#lift(lane)
    // A claim that closes a dropping bucket must see that lanes elsewhere wait for it.
    for (const other of lane.buckets) if (other !== bucket && drops(other)) other.wakeAtUs ??= NEVER_US
    for (const other of lane.buckets) this.#guarantees.note(other)
    bucket.wakeAtUs = Math.min(bucket.wakeAtUs ?? NEVER_US, untilUs)
    this.#ahead?.note(this.#waitList(bucket), untilUs)
  }

  /** Puts a lane back to its first job after tentative starts. */
  readonly #reopen = (lane: Lane): void => {
    const head = lane.heads[lane.next]
    this.#open(lane)
    if (head) placeAs(lane, head)
  }

  /** Takes a lane out of its wait list. The stored wake time was its head's, so the new head is evaluated again. */
  #open(lane: Lane): void {
    const { on, deputyOf } = lane
    opens(lane)
    if (on) {
      this.#waitList(on).leave(lane)
      this.#offerFirst(this.#waitList(on))
    }
    if (on && deputyOf) {
      this.#waitList(deputyOf).removeDeputy(lane, on)
      this.#offerFirst(this.#waitList(deputyOf))
    }
  }

  /** Closes a lane without jobs for this claimer: it is empty, waits for another worker's budget, or is parked. */
  #close(lane: Lane): void {
    this.#open(lane)
    const unlisted = this.#source.unlisted?.(lane)
    if (!unlisted) return void (lane.state = 'empty')
    placeAs(lane, unlisted.head)
    const refusal = unlisted.known ? this.#refusalOf(lane, unlisted.head) : null
    if (refusal) return this.#wait(lane, refusal)
    lane.state = 'parked'
    this.parked++
  }

  /** All lanes share the slots, so each gets this many turns at most. */
  readonly #headOf = (lane: Lane): Head | null => {
    const turns = Math.ceil(this.#slots(lane.queue) / Math.max(1, this.#lanes))
    return headOf(lane, this.#source, turns, this.nowUs, this.#ahead ? HEADS_AHEAD : 0)
  }

  #startUnlimited(share: QueueSlots): void {
    const head = share.unlimitedHead
    if (!head || this.#queueIsClosed(share, head.given)) return
    share.shiftUnlimited()
    this.#grant(share, null, head, share.buckets)
  }

  /** A closed bucket of the queue itself puts the queue to sleep as a whole. */
  #queueIsClosed(share: QueueSlots, priority: number | null): boolean {
    const untilUs = share.closedUntilUs(this.nowUs, priority)
    if (untilUs === null) return false
    for (const bucket of share.outOfPermits(this.nowUs, priority)) {
      this.#dropping.sleeps(bucket)
      this.#waitList(bucket)
    }
    share.slots = 0
    this.#wakeUs = Math.min(this.#wakeUs, untilUs)
    // The queue's lanes no longer block others, so shared wait lists offer their next lanes now.
    for (const waitList of this.waitLists.values()) this.#offerFirst(waitList)
    return true
  }

  #grant(share: QueueSlots, lane: Lane | null, head: Head, charged: readonly Charge[]): void {
    share.slots--
    if (this.#ahead) share.ahead--
    const shadowed = pay(charged, this.#ahead?.clockUs ?? this.nowUs, this.nowUs)
    this.grants.push({ lane, queue: share.queue, head, charged, startUs: this.nowUs, ...shadowed })
    this.#source.elsewhere.charged(charged)
    for (const { bucket } of charged) this.#dropping.note(bucket)
  }
}
