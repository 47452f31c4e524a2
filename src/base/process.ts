import { readFileSync } from 'node:fs'

/** Which process this is, so that another one of this host can tell whether it still lives. */
export interface ProcessIdentity {
  readonly pid: number
  /** When it was born, as its host counts; tells it from a later process with the same number. Empty where the host does not say. */
  readonly born: string
}

/** This process. */
export function ownProcess(): ProcessIdentity {
  return { pid: process.pid, born: bornOf(process.pid) }
}

/** Tells whether a process of this host and boot is still there. */
export function isAlive(identity: ProcessIdentity): boolean {
  try {
    process.kill(identity.pid, 0)
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
  return bornOf(identity.pid) === identity.born
}

// Field 22 of /proc/<pid>/stat is the start time; the name in field 2 may hold spaces, so count from the last parenthesis.
function bornOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' ? 'gone' : (fields[19] ?? '')
  } catch {
    return ''
  }
}
