// Limits in shadow mode, naively: such a limit denies nothing. It has a queue of its own, in which no job waits: a start
// joins it when it really happens, and leaves it at the first instant, not before that of the start ahead of it, at which the enforced
// limit would admit it. The time in between is the delay that it tells.
import { Deputy } from './deputy.mjs'

export class Shadow extends Deputy {
  deny(b, w, l) { return b.limit.mode === 'shadow' ? null : super.deny(b, w, l) }
  charge(b, w) {
    if (b.limit.mode !== 'shadow') return super.charge(b, w)
    const { T, burst, concurrency, maxWait = Infinity, onLimit } = b.limit
    const isFull = concurrency !== undefined && b.active >= concurrency
    let leaves = Math.max(this.now, b.left ?? 0)
    if (T !== undefined) leaves = Math.max(leaves, b.tat - (burst - Math.min(w, burst)) * T)
    const delay = leaves - this.now, refused = isFull || delay > 0, drops = refused && (onLimit === 'drop' || delay > maxWait)
    if (!drops) { b.left = leaves; if (T !== undefined) b.tat = Math.max(b.tat, leaves) + w * T }
    b.active++
    if (refused) (this.told ??= []).push({ bucket: b.name, delay: isFull ? null : delay, drops })
  }
}
