// Processes whose wall clocks are off.
import { globSync } from 'node:fs'
import { missing } from './services.ts'

/** Whether wall clocks can be set off: libfaketime is installed. @throws under `CI=true` where it is not */
export function canSkew(): boolean {
  return (
    library() !== undefined || missing('libfaketime is not installed', 'workers whose wall clocks are off') !== null
  )
}

/**
 * The environment of a process whose wall clock is off by so many seconds, while its steady clock goes with the machine's.
 * @throws where libfaketime is not installed
 */
export function skewedEnvironment(byS: number): NodeJS.ProcessEnv {
  if (byS === 0) return process.env
  const path = library()
  if (path === undefined) throw new Error('libfaketime is not installed')
  return { ...process.env, LD_PRELOAD: path, FAKETIME: `${byS < 0 ? '' : '+'}${byS}s`, DONT_FAKE_MONOTONIC: '1' }
}

function library(): string | undefined {
  return globSync('/usr/lib/*/faketime/libfaketime.so.1')[0]
}
