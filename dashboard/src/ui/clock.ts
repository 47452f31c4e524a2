import { useSyncExternalStore } from 'react'

/** The server's clock less the browser's, in ms, from the answers' times. A wrong clock of a viewer must not shift countdowns. */
let offsetMs = 0
let nowMs = Date.now()
const listeners = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined

function tick(): void {
  nowMs = Date.now() + offsetMs
  for (const listener of listeners) listener()
}

export function setServerTime(serverMs: number): void {
  // Half a second is what a Date header rounds away.
  const next = serverMs - Date.now()
  if (!Number.isNaN(next) && Math.abs(next - offsetMs) > 1500) offsetMs = next
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  timer ??= setInterval(tick, 250)
  return () => {
    listeners.delete(listener)
    if (listeners.size === 0) {
      clearInterval(timer)
      timer = undefined
    }
  }
}

/** The server's time in ms, renewed four times a second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => nowMs)
}
