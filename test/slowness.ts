// How much slower this machine is than the one on which the bounds of real time were set: what may be late may be so by as much more.

/** What the work below took there, ms. */
const THERE_MS = 14

/** At least 1; the median of some looks, since others may use the processors too. */
function slowness(): number {
  const took = Array.from({ length: 9 }, () => {
    const beganMs = performance.now()
    let text = ''
    for (let i = 0; i < 40; i++) text = JSON.stringify(Array.from({ length: 2000 }, (_, n) => ({ n, of: [i, n * i] })))
    return { ms: performance.now() - beganMs, text }
  }).map(({ ms }) => ms)
  return Math.max(1, (took.toSorted((a, b) => a - b)[4] ?? 0) / THERE_MS)
}

/** At least 1. */
export const SLOWNESS: number = slowness()
