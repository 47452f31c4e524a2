// How much slower this machine is than one that keeps the bounds of real time as they were set: what may be late may be so by as much more.

/** A machine that does the work below within this time, ms, is fast enough; an estimate. */
const FAST_MS = 14
/** A bound that grew without end would hold nothing. */
const AT_MOST = 4

/** The median of some looks, since others may use the processors too. */
function slowness(): number {
  const took = Array.from({ length: 9 }, () => {
    const beganMs = performance.now()
    let text = ''
    for (let i = 0; i < 40; i++) text = JSON.stringify(Array.from({ length: 2000 }, (_, n) => ({ n, of: [i, n * i] })))
    return { ms: performance.now() - beganMs, text }
  }).map(({ ms }) => ms)
  return Math.min(AT_MOST, Math.max(1, (took.toSorted((a, b) => a - b)[4] ?? 0) / FAST_MS))
}

/** From 1 to 4. */
export const SLOWNESS: number = slowness()
