import { charge, deniedUntil } from './bucket.ts'
import { type Bucket, type Head, type Lane, Line, type LineSource, NEVER_US, type Served } from './line.ts'
import { maxWaitUs, overdue, type Refusal, refusalBehaviour } from './refusal.ts'
import { rank, type Ranked, TurnOrder } from './turn-order.ts'

/** One queue within a decision. */
export interface QueueShare {
  readonly queue: number
  slots: number
  /** The queue's own buckets, with the units that each start costs: a closed one puts the whole queue to sleep. */
  readonly buckets: readonly Charge[]
  /** At equal priority the open line and the lanes go in turn; true: the open line is next. */
  openLineNext: boolean
}

/** What a decision reads while it goes: a backend reads it from its tables, bounded by what is asked for. */
export interface AdmissionSource extends LineSource {
  /** Further waiting jobs of a lane, in order; fewer than asked for: there are no more. */
  heads(lane: Lane, count: number): Head[]
  /** Further waiting jobs of a queue's open line, in order. */
  openLine(queue: number, count: number): Head[]
  served(queue: number): Served
}

/** One start. */
export interface Grant {
  readonly lane: Lane | null
  readonly queue: number
  readonly head: Head
  /** What was paid for it, and where. */
  readonly charged: readonly Charge[]
}

/** Units that one start took from one bucket. */
export interface Charge {
  readonly bucket: Bucket
  readonly weight: number
}

/** One job that will not start. */
export interface Rejection {
  readonly lane: Lane
  readonly head: Head
  readonly refusal: Refusal
}

interface Candidate extends Ranked {
  readonly lane: Lane
  /** Set: the lane is looked at as the first of this line. */
  readonly line: Line | null
}

interface OpenLine {
  readonly share: QueueShare
  heads: Head[]
  next: number
}

const HEADS_AT_ONCE = 16
const REJECTIONS_AT_MOST = 1000

/**
 * Decides which waiting jobs start at one instant: all buckets of a job must admit it, or none is charged.
 *
 * Candidates are the open lanes, the first of every line that is due, and the open lines. They go by priority, then by turn.
 * A lane that is refused waits in the line of the bucket that refuses longest; a newcomer waits behind those it does not outrank.
 */
export class Admission {
  readonly nowUs: number
  readonly grants: Grant[] = []
  readonly rejections: Rejection[] = []
  readonly lines: Map<Bucket, Line> = new Map()
  /** Lanes looked at. */
  looks = 0
  /** When something that can start here may start, beyond the lines: a sleeping queue. */
  #wakeUs = NEVER_US
  readonly #source: AdmissionSource
  readonly #shares = new Map<number, QueueShare>()
  readonly #openLines: OpenLine[] = []
  readonly #order = new TurnOrder<Candidate>()
  #turn: number

  constructor(nowUs: number, turn: number, shares: readonly QueueShare[], source: AdmissionSource) {
    this.nowUs = nowUs
    this.#turn = turn
    this.#source = source
    for (const share of shares) {
      this.#shares.set(share.queue, share)
      this.#openLines.push({ share, heads: [], next: 0 })
    }
  }

  /** Adds an open lane. */
  addLane(lane: Lane): void {
    this.#order.push({ id: lane.id, priority: lane.priority, turn: lane.turn, head: lane.head, lane, line: null })
  }

  /** Adds a bucket whose line is due. */
  addDue(bucket: Bucket): void {
    this.#queueLine(this.#line(bucket))
  }

  /** The last turn that was given. */
  get turn(): number {
    return this.#turn
  }

  /** Grants until slots, budgets or jobs run out. */
  decide(): void {
    for (;;) {
      const candidate = this.#order.top
      if (!candidate) break
      const openLine = this.#openLineBefore(candidate)
      if (openLine) this.#startOpen(openLine)
      else {
        this.#order.pop()
        this.#consider(candidate)
      }
    }
    for (const openLine of this.#openLines)
      while (openLine.share.slots > 0 && this.#headOfOpen(openLine)) this.#startOpen(openLine)
  }

  /** Re-times every line that was touched, and answers when the next of them may start here. */
  retime(): number {
    let wakeUs = this.#wakeUs
    for (const line of this.lines.values()) {
      const { bucket } = line
      if (line.empty) {
        bucket.wakeAtUs = null
        continue
      }
      const live = line.first((queue) => this.#source.served(queue) !== 'nowhere') ?? line.first(() => true)
      bucket.wakeAtUs = live ? this.#needOf(live, bucket) : NEVER_US
      const next = live && this.#slots(live.queue) > 0 ? live : line.first((queue) => this.#hinders(queue))
      if (next && this.#slots(next.queue) > 0) wakeUs = Math.min(wakeUs, this.#needOf(next, bucket))
    }
    return wakeUs
  }

  #line(bucket: Bucket): Line {
    let line = this.lines.get(bucket)
    if (!line) this.lines.set(bucket, (line = new Line(bucket, this.#source)))
    return line
  }

  #slots(queue: number): number {
    return this.#shares.get(queue)?.slots ?? 0
  }

  /** Offers the first of a due line, if it can start here and the bucket itself would admit it. */
  #queueLine(line: Line): void {
    if (line.queued) return
    const lane = line.first((queue) => this.#hinders(queue))
    if (!lane) return
    const needUs = this.#needOf(lane, line.bucket)
    line.bucket.wakeAtUs = needUs
    if (needUs > this.nowUs || this.#slots(lane.queue) === 0) return
    line.queued = true
    this.#order.push({ id: lane.id, priority: lane.priority, turn: lane.turn, head: lane.head, lane, line })
  }

  /** A queue that is full here and served nowhere else holds nobody up. */
  #hinders(queue: number): boolean {
    return this.#slots(queue) > 0 || this.#source.served(queue) === 'elsewhere'
  }

  #consider(candidate: Candidate): void {
    const { lane, line } = candidate
    if (line) {
      line.queued = false
      if (line.first((queue) => this.#hinders(queue)) !== lane || lane.turn !== candidate.turn)
        return this.#queueLine(line)
    } else if (lane.state !== 'open' || lane.turn !== candidate.turn || lane.head !== candidate.head) return
    const share = this.#shares.get(lane.queue)
    if (!share || share.slots === 0) return
    if (this.#queueIsClosed(share)) return
    this.#look(lane, line, share)
  }

  #look(lane: Lane, line: Line | null, share: QueueShare): void {
    this.looks++
    const head = this.#headOf(lane)
    if (!head) return this.#setEmpty(lane)
    const refusal = this.#refusal(lane, head)
    if (!refusal) return this.#start(lane, head, share)
    if (refusal.behaviour !== 'wait' && this.rejections.length < REJECTIONS_AT_MOST)
      return this.#reject(lane, head, refusal)
    const { bucket, untilUs } = refusal
    this.#wait(lane, bucket, untilUs)
    this.#rejectOverdue(lane, refusal)
    if (!line || line.bucket === bucket) return
    if (!lane.deputyOf) {
      lane.deputyOf = line.bucket
      line.addDeputy(lane)
    }
    this.#queueLine(line)
  }

  /** The bucket that refuses longest, and what its policy and the others' that refuse make of that. */
  #refusal(lane: Lane, head: Head): Refusal | null {
    let worst: Bucket | null = null
    let untilUs = -1
    const refusing: Bucket[] = []
    for (let i = 0; i < lane.buckets.length; i++) {
      const bucket = lane.buckets[i] as Bucket
      let denied = this.#denied(bucket, weightOf(head, i, bucket))
      if (denied === null && bucket.wakeAtUs !== null) {
        const ahead = this.#line(bucket).first((queue) => this.#hinders(queue), lane)
        if (ahead && rank(ahead, lane) < 0) {
          denied = Math.max(bucket.wakeAtUs, this.nowUs)
          if (denied === this.nowUs) this.#queueLine(this.#line(bucket))
        }
      }
      if (denied === null) continue
      refusing.push(bucket)
      if (denied > untilUs) {
        untilUs = denied
        worst = bucket
      }
    }
    return worst && { bucket: worst, untilUs, behaviour: refusalBehaviour(refusing, lane.buckets, head, untilUs) }
  }

  #denied(bucket: Bucket, weight: number): number | null {
    if (!bucket.policy) return NEVER_US
    const until = deniedUntil(bucket.policy, bucket.state, bucket.active, this.nowUs, weight)
    return until === Infinity ? NEVER_US : until
  }

  /** When this bucket alone would admit the lane's head. */
  #needOf(lane: Lane, bucket: Bucket): number {
    const head = this.#headOf(lane)
    if (!head) return this.nowUs
    return this.#denied(bucket, weightOf(head, lane.buckets.indexOf(bucket), bucket)) ?? this.nowUs
  }

  #start(lane: Lane, head: Head, share: QueueShare): void {
    const own = lane.buckets.map((bucket, i) => ({ bucket, weight: weightOf(head, i, bucket) }))
    this.#grant(share, lane, head, [...own, ...share.buckets.filter(({ bucket }) => !lane.buckets.includes(bucket))])
    share.openLineNext = true
    lane.turn = ++this.#turn
    this.#shift(lane)
  }

  #reject(lane: Lane, head: Head, refusal: Refusal): void {
    this.rejections.push({ lane, head, refusal })
    this.#shift(lane)
  }

  /** Jobs behind a refused head that cannot start in time either: they learn it now, not when their time is over. */
  #rejectOverdue(lane: Lane, refusal: Refusal): void {
    if (this.rejections.length >= REJECTIONS_AT_MOST || maxWaitUs(lane.buckets) === Infinity) return
    this.#loadHeads(lane, REJECTIONS_AT_MOST)
    for (const rejection of overdue(lane, refusal, this.nowUs)) {
      this.rejections.push({ lane, head: rejection.head, refusal: rejection.refusal })
      lane.heads.splice(lane.heads.indexOf(rejection.head), 1)
    }
  }

  /** The head has gone: the lane stands open for its next, or is empty. */
  #shift(lane: Lane): void {
    lane.next++
    this.#open(lane)
    const head = this.#headOf(lane)
    if (!head) return this.#setEmpty(lane)
    lane.priority = head.priority
    lane.head = head.seq
    this.addLane(lane)
  }

  #wait(lane: Lane, bucket: Bucket, untilUs: number): void {
    if (lane.on !== bucket) {
      this.#open(lane)
      lane.on = bucket
      this.#line(bucket).join(lane)
    }
    lane.state = 'waiting'
    lane.changed = true
    bucket.wakeAtUs = Math.min(bucket.wakeAtUs ?? NEVER_US, untilUs)
  }

  /** Leaves its line: whoever becomes first there is looked at again, for the line's time spoke of the one who left. */
  #open(lane: Lane): void {
    const { on, deputyOf } = lane
    lane.on = null
    lane.deputyOf = null
    lane.state = 'open'
    lane.changed = true
    if (on) {
      this.#line(on).leave(lane)
      this.#queueLine(this.#line(on))
    }
    if (deputyOf) {
      this.#line(deputyOf).removeDeputy(lane)
      this.#queueLine(this.#line(deputyOf))
    }
  }

  #setEmpty(lane: Lane): void {
    this.#open(lane)
    lane.state = 'empty'
  }

  #headOf(lane: Lane): Head | null {
    if (lane.next >= lane.heads.length) this.#loadHeads(lane, lane.heads.length === 0 ? 1 : HEADS_AT_ONCE)
    return lane.heads[lane.next] ?? null
  }

  #loadHeads(lane: Lane, count: number): void {
    if (lane.heads.length > lane.next + count) return
    lane.heads.push(...this.#source.heads(lane, count))
  }

  #headOfOpen(line: OpenLine): Head | null {
    if (line.next >= line.heads.length) line.heads.push(...this.#source.openLine(line.share.queue, line.share.slots))
    return line.heads[line.next] ?? null
  }

  /** The open line of the candidate's queue, when its head outranks the candidate or it is its turn. */
  #openLineBefore(candidate: Candidate): OpenLine | null {
    for (const line of this.#openLines) {
      if (line.share.queue !== candidate.lane.queue || line.share.slots === 0) continue
      const head = this.#headOfOpen(line)
      if (!head || head.priority < candidate.priority) return null
      return head.priority > candidate.priority || line.share.openLineNext ? line : null
    }
    return null
  }

  #startOpen(line: OpenLine): void {
    const head = this.#headOfOpen(line)
    if (!head || this.#queueIsClosed(line.share)) return
    line.next++
    line.share.openLineNext = false
    this.#grant(line.share, null, head, line.share.buckets)
  }

  /** A closed bucket of the queue itself puts the queue to sleep as a whole. */
  #queueIsClosed(share: QueueShare): boolean {
    let untilUs = -1
    for (const { bucket, weight } of share.buckets) untilUs = Math.max(untilUs, this.#denied(bucket, weight) ?? -1)
    if (untilUs < 0) return false
    share.slots = 0
    this.#wakeUs = Math.min(this.#wakeUs, untilUs)
    return true
  }

  #grant(share: QueueShare, lane: Lane | null, head: Head, charged: readonly Charge[]): void {
    share.slots--
    this.grants.push({ lane, queue: share.queue, head, charged })
    for (const { bucket, weight } of charged) {
      if (!bucket.policy) continue
      charge(bucket.policy, bucket.state, this.nowUs, weight)
      if (bucket.policy.concurrency !== null) bucket.active++
      bucket.granted++
      bucket.changed = true
    }
  }
}

/** Units that a head costs in the i-th bucket of its lane; a retry that is free of charge costs none. */
export function weightOf(head: Head, i: number, bucket: Bucket): number {
  if (head.attempt > 0 && bucket.policy?.retries === 'free') return 0
  return head.weights?.[i] ?? 1
}
