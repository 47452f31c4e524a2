// Guaranteed shares of a common limit, naively: `of: { limit, T, burst, concurrency, keys }` of a limit. A lane that needs a bucket of such a
// limit needs one of the common limit too. It is *within* its guarantee in the common bucket while a token bucket of its own says so, at this very
// instant. Then it goes before all that are not, also those of higher priority, and may take what they must leave (the reserve).
// The lessons:
// - being within changes with time, and by a start of the same key elsewhere: the line is looked at again at either;
// - an open lane within its guarantee goes before the first of the line too, since it may never stand in that line;
// - a deputy outside a guarantee holds none that has one.
import { Shadow } from './shadow.mjs'

export class Guarantees extends Shadow {
  limitOf(b) { return b.name.split(':')[0] }
  shares(l, c) { return l.names.map((n) => this.bucket(n)).filter((b) => b.limit.of?.limit === this.limitOf(c)) }
  // until when a start of `w` is outside the guarantee of bucket b; null: within
  outside(b, w) {
    const { of } = b.limit
    return of.concurrency !== undefined && b.active >= of.concurrency ? Infinity : this.unripe(of, b.assured ?? 0, w)
  }
  within(l, c) { return l.jobs.length > 0 && this.shares(l, c).some((b) => this.outside(b, l.jobs[0].weight) === null) }
  rankIn(c, x, y) { return Number(this.within(y, c)) - Number(this.within(x, c)) || super.rankIn(c, x, y) }
  goesBefore(d, l, name) {
    const c = this.bucket(name)
    return (this.within(d, c) || this.shares(l, c).length === 0) && this.rankIn(c, d, l) < 0
  }
  reserve(c) {
    if (c.limit.T === undefined || c.limit.concurrency !== undefined) return 0
    let sum = 0
    for (const { of } of Object.values(this.limits)) if (of?.limit === this.limitOf(c) && of.T !== undefined) sum += (of.keys ?? Infinity) * of.burst
    return Math.min(sum, Math.floor(c.limit.burst / 2))
  }
  kept(c, l) { return l && this.within(l, c) ? 0 : this.reserve(c) }
  charge(b, w) {
    const { of } = b.limit
    if (of?.T !== undefined && this.outside(b, w) === null) b.assured = Math.max(b.assured ?? 0, this.now) + w * of.T
    super.charge(b, w)
  }
  waiting() { return [...this.lanes.values()].filter((l) => l.on && l.jobs.length) }
  common(l) { return l.names.map((n) => this.bucket(n)).filter((c) => this.shares(l, c).length > 0) }
  // lanes that have come to be within their guarantee, or have ceased to be: the lines where they stand, or hold others, are looked at now
  turnLines() {
    let changed = false
    for (const l of this.waiting()) {
      const is = this.common(l).filter((c) => this.within(l, c)).map((c) => c.name).join()
      if (is === (l.first ?? '')) continue
      l.first = is; changed = true
      for (const b of [l.on, l.deputyOf?.b]) if (b?.waiters.size) b.wakeAt = Math.min(b.wakeAt, this.now)
    }
    return changed
  }
  claim() {
    const started = []
    do { this.turnLines(); started.push(...super.claim()) } while (this.turnLines() && this.running.size < this.slots)
    return started
  }
  tryLane(l, started) {
    let moved = false
    const open = () => [...this.lanes.values()].sort((x, y) => (x.jobs.length && y.jobs.length ? this.rank(x, y) : 0)).find((g) => g !== l && g.state === 'open' &&
      l.names.some((n) => g.names.includes(n) && this.within(g, this.bucket(n)) && !this.within(l, this.bucket(n))))
    for (let g = open(); g && this.running.size < this.slots; g = open()) { super.tryLane(g, started); moved = true }
    return super.tryLane(l, started) || moved
  }
  nextWake() {
    let m = super.nextWake()
    if (this.running.size < this.slots) for (const l of this.waiting()) for (const c of this.common(l)) {
      if (this.within(l, c)) continue
      for (const b of this.shares(l, c)) m = Math.min(m, this.outside(b, l.jobs[0].weight) ?? Infinity)
    }
    return m
  }
}
