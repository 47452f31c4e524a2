import { watch } from 'node:fs'

/**
 * Calls `listener` after writes to the log of a SQLite file, by this process or another. Writes close together may be
 * one call. The watch alone does not keep the process alive.
 * @returns how to stop it, or null where the system cannot watch the file
 */
export function watchLog(path: string, listener: () => void): (() => void) | null {
  try {
    const watcher = watch(`${path}-wal`, { persistent: false }, listener)
    // A watch that breaks later falls silent, and its owner looks by itself again.
    watcher.on('error', () => watcher.close())
    return () => watcher.close()
  } catch {
    // No such facility, no more watches for this user, or no log: an ordinary path with none.
    return null
  }
}
