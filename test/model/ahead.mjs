// Starts granted ahead, naively: a claim at the clock also decides as it would at each later instant up to `ahead`, and charges every
// start at its own instant. So a job has two: when it was decided (from then on it holds its permits and a slot), and when it starts.
// Only what time alone decides is granted ahead: no permit of a bucket that has one free. The next start of a strict bucket that more lanes need than
// the bucket that sets the instant is held back for at most 5 ms.
// A lane that may not go is left to its own time, and all behind it in its line with it.
import { Guarantees } from './guarantees.mjs'

const AHEAD_OF_OTHERS = 5

export class Ahead extends Guarantees {
  constructor({ ahead = 0, ...options }) { super(options); this.ahead = ahead; this.clock = null; this.leave = new Set() }
  isDue(b) { return super.isDue(b) && (this.clock === null || (b.wakeAt > this.clock && !this.leave.has(b))) }
  claim() {
    const started = super.claim()
    if (this.ahead === 0) return started
    this.clock = this.now; this.leave.clear()
    for (;;) {
      const coming = [...this.buckets.values()].filter((b) => b.waiters.size && b.wakeAt > this.clock && b.wakeAt <= this.clock + this.ahead && !this.leave.has(b))
      if (coming.length === 0 || this.running.size >= this.slots) break
      this.now = Math.max(this.now, Math.min(...coming.map((b) => b.wakeAt)))
      const looks = this.looks, more = super.claim()
      for (const entry of this.log.slice(this.log.length - more.length)) entry.decided = this.clock
      started.push(...more)
      if (this.looks === looks) for (const b of coming) if (b.wakeAt <= this.now) this.leave.add(b)   // all that stand there are held by deputies
    }
    this.now = this.clock; this.clock = null
    return started
  }
  tryLane(l, started) {
    if (this.clock === null || this.now === this.clock || this.mayGo(l)) return super.tryLane(l, started)
    if (l.on) { this.leave.add(l.on); return false }
    const b = l.names.map((n) => this.bucket(n)).find((each) => this.deny(each, l.jobs[0].weight, l) !== null) ?? this.bucket(l.names[0])
    this.wait(l, b, this.now); this.leave.add(b)
    return true
  }
  mayGo(l) {
    const at = this.now
    this.now = this.clock
    const needs = new Map(l.names.map((n) => [n, this.deny(this.bucket(n), l.jobs[0].weight, l) ?? this.clock]))
    this.now = at
    const widest = Math.max(0, ...l.names.filter((n) => needs.get(n) >= at).map((n) => this.lanesOf(n)))
    return l.names.every((n) => {
      const { T, burst, concurrency, mode } = this.bucket(n).limit, need = needs.get(n)
      if (mode === 'shadow') return true
      if (concurrency !== undefined && need < at) return false
      return T === undefined || burst > 1 || at - need <= AHEAD_OF_OTHERS || this.lanesOf(n) <= widest
    })
  }
  lanesOf(name) { return [...this.lanes.values()].filter((l) => l.names.includes(name)).length }
}
