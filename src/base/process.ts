import { readFileSync } from 'node:fs'

/** The identity of a process, by which another process of this host checks that it is still alive. */
export interface ProcessIdentity {
  readonly pid: number
  /**
   * The start time as the host counts it; tells the process from a later one with the same number. Empty if the host
   * has none.
   */
  readonly born: string
}

/** The identity of this process. */
export function ownProcess(): ProcessIdentity {
  return { pid: process.pid, born: bornOf(process.pid) }
}

/** Whether a process of this host and boot is still alive. */
export function isAlive(identity: ProcessIdentity): boolean {
  try {
    process.kill(identity.pid, 0)
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
  return bornOf(identity.pid) === identity.born
}

// Field 22 of /proc/<pid>/stat is the start time. The name in field 2 may hold spaces, so fields count from the last
// parenthesis.
function bornOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? 'gone' : (fields[19] ?? '')
  } catch {
    return ''
  }
}
